import { expect, test } from 'bun:test'
import { inspect } from 'node:util'
import { type LoadedSettings, loadSettings } from './load.ts'
import { describeProblem } from './settings.ts'

const ENVIRONMENT = {
  VLLM_API_KEY: 'canary-key-1',
  ANTHROPIC_API_KEY: 'canary-4',
  GEMINI_API_KEY: 'canary-5',
  GATEWAY_TOKEN: 'canary-token-2',
  EMPTY: '',
  BROKEN: 'canary-3\nx',
}

function load(text: string): LoadedSettings {
  const fileExists = (path: string) => path.endsWith('.gguf')
  return loadSettings(text, { environment: ENVIRONMENT, directory: '/etc/tollgate', fileExists })
}

function problemsOf(text: string): string[] {
  const loaded = load(text)
  return loaded.ok ? [] : loaded.problems.map((problem) => describeProblem('tollgate.yaml', problem))
}

function settingsOf(text: string) {
  const loaded = load(text)
  if (!loaded.ok) throw new Error(problemsOf(text).join('\n'))
  return loaded.settings
}

const PRICING = 'pricing: { input_per_1m_tokens_cents: 10, output_per_1m_tokens_cents: 30 }'

test('an upstream carries its credentials out of reach of logs and dumps', () => {
  const { upstreams } = settingsOf(`upstreams:
  v:
    dialect: openai
    base_url: http://h:1/v1///
    api_key_env: VLLM_API_KEY
    headers: { X-Team: a, x-gateway-token: { env: GATEWAY_TOKEN } }
`)
  const upstream = upstreams[0]
  if (upstream?.dialect !== 'openai') throw new Error('not loaded')
  expect(upstream.baseUrl).toBe('http://h:1/v1')
  expect(upstream.apiKey?.reveal()).toBe('canary-key-1')
  expect(upstream.headers['x-gateway-token']?.reveal()).toBe('canary-token-2')
  for (const dump of [
    inspect(upstreams, { depth: 9, showHidden: true }),
    JSON.stringify(upstreams),
    `${upstream.apiKey}`,
  ]) {
    expect(dump).not.toContain('canary')
  }
})

test("a provider's address may be left out, and its key may not, unless there is another address", () => {
  const { upstreams } = settingsOf(`upstreams:
  a: { dialect: anthropic, api_key_env: ANTHROPIC_API_KEY }
  g: { dialect: gemini, api_key_env: GEMINI_API_KEY }
  p: { dialect: anthropic, base_url: "http://127.0.0.1:9/v1/" }
`)
  expect(upstreams).toMatchObject([
    { dialect: 'anthropic', baseUrl: 'https://api.anthropic.com/v1' },
    { dialect: 'gemini', baseUrl: 'https://generativelanguage.googleapis.com/v1beta' },
    { dialect: 'anthropic', baseUrl: 'http://127.0.0.1:9/v1', apiKey: null },
  ])
})

/** Each: what the operator wrote, and where and what the answer must say. */
const REFUSED: readonly (readonly [string, string, RegExp])[] = [
  [
    'an unknown dialect',
    'upstreams: { a: { dialect: opanai } }',
    /upstreams.a.dialect: must be .*did you mean 'openai'/,
  ],
  ['no dialect', 'upstreams: { a: { base_url: x } }', /upstreams.a.dialect: is missing/],
  [
    'a missing variable',
    'upstreams:\n  a:\n    dialect: openai\n    base_url: http://h/v1\n    api_key_env: NOT_SET',
    /:5:18: upstreams.a.api_key_env: the environment variable NOT_SET is not set/,
  ],
  ['no key for a provider', 'upstreams: { a: { dialect: gemini } }', /upstreams.a.api_key_env: is missing: it must be/],
  ['no address', 'upstreams: { a: { dialect: openai } }', /upstreams.a.base_url: is missing/],
  [
    'an address that goes too far',
    'upstreams: { a: { dialect: anthropic, base_url: "http://h/v1/messages" } }',
    /base_url: must stop before '\/messages'/,
  ],
  [
    'a model in the address',
    'upstreams: { a: { dialect: gemini, base_url: "http://h/v1beta/models/m" } }',
    /base_url: must stop before '\/models'/,
  ],
  [
    'a key twice for a provider',
    'upstreams: { a: { dialect: gemini, api_key_env: GEMINI_API_KEY, headers: { X-Goog-Api-Key: { env: VLLM_API_KEY } } } }',
    /is set from 'api_key_env': remove one of them/,
  ],
  [
    'the version of the wire format',
    'upstreams: { a: { dialect: anthropic, api_key_env: ANTHROPIC_API_KEY, headers: { anthropic-version: x } } }',
    /is set by the gateway: remove it/,
  ],
  [
    'a model of Anthropic without the limit of its answers',
    `upstreams: { a: { dialect: anthropic, base_url: "http://h" } }\nmodels:\n  - id: svc/m\n    context_length: 4096\n    ${PRICING}\n    targets: [{ upstream: a, model: m }]`,
    /targets\[0\].upstream: needs the model's max_output_tokens/,
  ],
  [
    'an empty variable',
    'upstreams: { a: { dialect: openai, base_url: "http://h", api_key_env: EMPTY } }',
    /EMPTY is not set/,
  ],
  [
    'a variable with a line break',
    'upstreams: { a: { dialect: openai, base_url: "http://h", api_key_env: BROKEN } }',
    /BROKEN holds characters/,
  ],
  [
    'a key in the file',
    'upstreams: { a: { dialect: openai, base_url: "http://h", api_key: sk-1 } }',
    /a credential never stands in this file/,
  ],
  [
    'a key as the name',
    'upstreams: { a: { dialect: openai, base_url: "http://h", api_key_env: sk-canary } }',
    /must be the name of an environment variable/,
  ],
  [
    'a secret header',
    'upstreams: { a: { dialect: openai, base_url: "http://h", headers: { x-api-key: canary } } }',
    /may be a credential/,
  ],
  [
    'a header of no form',
    'upstreams: { a: { dialect: openai, base_url: "http://h", headers: { x-a: 3 } } }',
    /headers.x-a: must be text, or/,
  ],
  [
    'an impossible pace',
    'upstreams: { a: { dialect: sandbox, tokens_per_second: fast } }',
    /tokens_per_second: must be a number from/,
  ],
  [
    'a header of ours',
    'upstreams: { a: { dialect: openai, base_url: "http://h", headers: { Content-Type: x } } }',
    /is set by the gateway/,
  ],
  [
    'a password in the address',
    'upstreams: { a: { dialect: openai, base_url: "http://u:canary@h" } }',
    /holds a user name or password/,
  ],
  [
    'a whole endpoint',
    'upstreams: { a: { dialect: openai, base_url: "http://h/v1/chat/completions" } }',
    /must stop before/,
  ],
  [
    'no address',
    'upstreams: { a: { dialect: openai, base_url: "ftp://h" } }',
    /must be an address that starts with http/,
  ],
  ['no such file', 'upstreams: { a: { dialect: gguf, file: x.bin } }', /upstreams.a.file: there is no such file/],
  [
    'a reserved upstream',
    'upstreams: { sandbox: { dialect: gguf, file: x.gguf } }',
    /belongs to the dialect 'sandbox'/,
  ],
]

for (const [what, text, expected] of REFUSED) {
  test(`refused with line, path and what to do: ${what}`, () => {
    const problems = problemsOf(text)
    expect(problems.join('\n')).toMatch(expected)
    expect(problems.join('\n')).not.toMatch(/canary|sk-1/)
  })
}
