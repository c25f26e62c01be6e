/** A settings file that is read beside calls, in a process of its own and in turns, is the same as one that is read in one go. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { LoadedSettings } from '../catalog/load.ts'
import { systemClock } from '../infra/clock.ts'
import { checkedFrom, settingsSource, textOfChecked } from './settingsFile.ts'

const ENVIRONMENT = { VLLM_KEY: 'canary' }

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'settings-'))
})
afterAll(() => rm(folder, { recursive: true }))

async function readBothWays(text: string): Promise<readonly [LoadedSettings, LoadedSettings]> {
  const path = join(folder, 'tollgate.yaml')
  await writeFile(path, text)
  const server = { environment: ENVIRONMENT, host: '127.0.0.1', isShared: false }
  const source = settingsSource('tollgate.yaml', path, server, (settings) => settings)
  return [await source.load(), await source.reload(systemClock)]
}

const PROVIDERS = `
owned_by: house
plans: [{ key: a, name: A, input_tokens_monthly: 5, output_tokens_monthly: 1, weekly_tokens: 1 }]
providers:
  box: { dialect: sandbox }
  vllm: { dialect: openai, base_url: "http://h/v1", api_key_env: VLLM_KEY }
`
const model = (index: number) => `
  - id: svc/m${index}
    aliases: [m${index}]
    context_length: 100
    pricing: &p${index} { input_per_1m_tokens_cents: ${index}, output_per_1m_tokens_microcents: 1 }
    targets: [{ provider: vllm, model: x }, { provider: box, weight: 2 }]
    economy: { pricing: *p${index}, targets: [{ provider: box }] }
`

test('settings with models, prices, plans and credentials', async () => {
  const models = Array.from({ length: 300 }, (_, index) => model(index)).join('')
  const [atOnce, beside] = await readBothWays(`${PROVIDERS}models:${models}`)
  if (!atOnce.ok || !beside.ok) throw new Error('the file must be good')
  expect(beside.settings).toEqual(atOnce.settings)
  expect(beside.settings.models).toHaveLength(300)
  const [, vllm] = beside.settings.providers
  expect(vllm).toMatchObject({ name: 'vllm', dialect: 'openai' })
  expect(JSON.stringify(beside.settings.providers)).not.toContain('canary')
})

test.each([
  ['an empty file', ''],
  ['no models', PROVIDERS],
  ['an empty list of models', `${PROVIDERS}models: []`],
  ['an example with all that there is', await Bun.file(join(import.meta.dir, '../../../tollgate.example.yaml')).text()],
  ['mistakes', `${PROVIDERS}models:${model(1)}${model(1)}\n  - { id: 5 }\nportt: 3\n`],
  ['no YAML', 'models: [\n'],
])('%s', async (_, text) => {
  const [atOnce, beside] = await readBothWays(text)
  expect(beside).toEqual(atOnce)
})

test('an answer of the check that ends after any of its lines but the last is not taken for a file with fewer models', () => {
  const checked = { ok: true, rest: '{"port":1}', models: ['{"id":"svc/a"}', '{"id":"svc/b"}'] } as const
  const lines = textOfChecked(checked).split('\n')
  expect(checkedFrom(lines.join('\n'))).toEqual(checked)
  for (let kept = 0; kept < lines.length; kept += 1)
    expect(() => checkedFrom(lines.slice(0, kept).join('\n'))).toThrow()
})
