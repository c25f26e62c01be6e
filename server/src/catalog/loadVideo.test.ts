import { expect, test } from 'bun:test'
import { loadSettings } from './load.ts'
import { isSameProvider } from './provider.ts'

const WORKFLOW = '{"6":{"class_type":"Text","inputs":{"text":"{{prompt}}"}}}'

function load(text: string, more: { ffmpeg?: boolean; workflow?: string } = {}) {
  return loadSettings(text, {
    environment: {},
    directory: '/etc/tollgate',
    fileExists: () => true,
    programExists: (name) => name === 'ffmpeg' && more.ffmpeg !== false,
    readText: (path) => (path === '/etc/tollgate/flows/wan.json' ? (more.workflow ?? WORKFLOW) : null),
  })
}

const reasonsOf = (loaded: ReturnType<typeof load>) =>
  loaded.ok ? [] : loaded.problems.map(({ path, reason }) => `${path}: ${reason}`)

const SECONDS = '{ name: seconds, type: int, min: 1, max: 8, default: 4 }'
const model = (provider: string, parameters = SECONDS, target = 'wan') => `models:
  - id: svc/director
    modality: video
    parameters: [${parameters}]
    pricing: { per_video_second_cents: 5 }
    targets: [{ provider: ${provider}, model: ${target} }]
`
const SDCPP = 'providers: { painter: { dialect: sdcpp, base_url: "http://h:1/v1" } }\n'
const COMFY = 'providers: { comfy: { dialect: comfyui, base_url: "http://h:1", workflows: { wan: flows/wan.json } } }\n'

test.each([
  `${SDCPP}${model('painter')}`,
  `${COMFY}${model('comfy')}`,
  `providers: { v: { dialect: openai, base_url: "http://h:1/v1" } }\n${model('v')}`,
  `providers: { s: { dialect: sandbox, video_seconds_per_second: unlimited } }\n${model('s')}`,
])('a video model is active on each dialect that makes videos', (text) => {
  expect(reasonsOf(load(text))).toEqual([])
})

test.each([
  [`${SDCPP}${model('painter')}`, { ffmpeg: false }, 'apt-get install ffmpeg'],
  [`${COMFY}${model('comfy', SECONDS, 'other')}`, {}, 'targets[0].model: has no workflow'],
  [COMFY.replace('flows/wan.json', 'flows/none.json'), {}, 'workflows.wan: there is no such file'],
  [COMFY, { workflow: '{"nodes":[]}' }, "workflows.wan: is not a workflow in ComfyUI's API format"],
  [COMFY.replace('{ wan: flows/wan.json }', '{}'), {}, 'must have 1 to 100 entries'],
  [COMFY.replace('"http://h:1"', '"http://h:1/prompt"'), {}, "must end before '/prompt'"],
  [COMFY.replace(', workflows: { wan: flows/wan.json }', ''), {}, 'workflows: is missing'],
  [`${COMFY}${model('comfy', '')}`, {}, "must have 'seconds' with 'type: int' and its 'default'"],
  [`${COMFY}${model('comfy', '{ name: seconds, type: int, min: 1, default: 4 }')}`, {}, "'max'"],
  [
    `${COMFY}${model('comfy', '{ name: seconds, type: int, min: 0, max: 8, default: 4 }')}`,
    {},
    "'min' must be at least 1",
  ],
  [`${COMFY}${model('comfy', '{ name: seconds, type: string }')}`, {}, "must have 'type: int'"],
  [`${COMFY}${model('comfy', `${SECONDS}, { name: n, type: int }`)}`, {}, 'videos take seconds and size'],
  [`providers: { a: { dialect: anthropic, base_url: "http://h:1/v1" } }\n${model('a')}`, {}, 'serves no video models'],
])('%p is refused', (text, more, reason) => {
  expect(reasonsOf(load(text, more)).join('\n')).toContain(reason)
})

test('a listed video model needs no length, and an sdcpp server of images no ffmpeg', () => {
  const listed = model('painter', '').replace('modality: video', 'modality: video\n    status: coming_soon')
  expect(reasonsOf(load(`${SDCPP}${listed}`))).toEqual([])
  expect(reasonsOf(load(SDCPP, { ffmpeg: false }))).toEqual([])
})

test('a changed workflow is another provider', () => {
  const providerOf = (workflow?: string) => {
    const loaded = load(COMFY, workflow === undefined ? {} : { workflow })
    const provider = loaded.ok ? loaded.settings.providers[0] : undefined
    if (provider === undefined) throw new Error('it was refused')
    return provider
  }
  expect(isSameProvider(providerOf(), providerOf())).toBe(true)
  expect(isSameProvider(providerOf(), providerOf(WORKFLOW.replace('Text', 'Other')))).toBe(false)
})
