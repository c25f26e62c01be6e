import { expect, test } from 'bun:test'
import { inspect } from 'node:util'
import { settingsLoader } from '../../test/settingsLoader.ts'
import { isSameProvider } from './provider.ts'

const ENVIRONMENT = {
  VLLM_API_KEY: 'canary-key-1',
  ANTHROPIC_API_KEY: 'canary-4',
  GEMINI_API_KEY: 'canary-5',
  GATEWAY_TOKEN: 'canary-token-2',
  EMPTY: '',
  BROKEN: 'canary-3\nx',
}

const { problemsOf, settingsOf } = settingsLoader(ENVIRONMENT)

const PRICING = 'pricing: { input_per_1m_tokens_cents: 10, output_per_1m_tokens_cents: 30 }'

test('a provider carries its credentials out of reach of logs and dumps', () => {
  const { providers } = settingsOf(`providers:
  v:
    dialect: openai
    base_url: http://h:1/v1///
    api_key_env: VLLM_API_KEY
    headers: { X-Team: a, x-gateway-token: { env: GATEWAY_TOKEN } }
`)
  const provider = providers[0]
  if (provider?.dialect !== 'openai') throw new Error('not loaded')
  expect(provider.baseUrl).toBe('http://h:1/v1')
  expect(provider.apiKey?.reveal()).toBe('canary-key-1')
  expect(provider.headers['x-gateway-token']?.reveal()).toBe('canary-token-2')
  for (const dump of [
    inspect(providers, { depth: 9, showHidden: true }),
    JSON.stringify(providers),
    `${provider.apiKey}`,
  ]) {
    expect(dump).not.toContain('canary')
  }
})

test("a provider's address may be left out, and its key may not, unless there is another address", () => {
  const { providers } = settingsOf(`providers:
  a: { dialect: anthropic, api_key_env: ANTHROPIC_API_KEY }
  g: { dialect: gemini, api_key_env: GEMINI_API_KEY }
  p: { dialect: anthropic, base_url: "http://127.0.0.1:9/v1/" }
`)
  expect(providers).toMatchObject([
    { dialect: 'anthropic', baseUrl: 'https://api.anthropic.com/v1' },
    { dialect: 'gemini', baseUrl: 'https://generativelanguage.googleapis.com/v1beta' },
    { dialect: 'anthropic', baseUrl: 'http://127.0.0.1:9/v1', apiKey: null },
  ])
})

const REMOTE =
  'dialect: openai, base_url: "http://h/v1", api_key_env: VLLM_API_KEY, headers: { x-a: a, x-b: { env: GATEWAY_TOKEN } }'
const compared: [string, boolean, string][] = [
  ['nothing', true, REMOTE],
  [
    'the order of headers',
    true,
    REMOTE.replace('x-a: a, x-b: { env: GATEWAY_TOKEN }', 'x-b: { env: GATEWAY_TOKEN }, x-a: a'),
  ],
  ['a default that is written out', true, `${REMOTE}, continuous_usage: false`],
  ['the field of the limit', false, `${REMOTE}, max_tokens_field: max_completion_tokens`],
  ['usage in every chunk', false, `${REMOTE}, continuous_usage: true`],
  ['the address', false, REMOTE.replace('h/v1', 'h/v2')],
  ['the dialect', false, REMOTE.replace('openai', 'sdcpp')],
  ['the key', false, REMOTE.replace('VLLM_API_KEY', 'GEMINI_API_KEY')],
  ['having no key', false, REMOTE.replace('api_key_env: VLLM_API_KEY, ', '')],
  ['the text of a header', false, REMOTE.replace('x-a: a', 'x-a: b')],
  ['the credential of a header', false, REMOTE.replace('GATEWAY_TOKEN', 'GEMINI_API_KEY')],
  ['the name of a header', false, REMOTE.replace('x-a', 'x-c')],
]
test.each(compared)('providers that differ in %s are the same: %p', (_what, isSame, changed) => {
  const providerOf = (lines: string) => {
    const provider = settingsOf(`providers: { v: { ${lines} } }`).providers[0]
    if (provider === undefined) throw new Error('not loaded')
    return provider
  }
  expect(isSameProvider(providerOf(REMOTE), providerOf(changed))).toBe(isSame)
})

test('a provider may name the field in which the limit of a chat answer is sent', () => {
  const { providers } = settingsOf(`providers:
  a: { dialect: openai, base_url: "http://h/v1", max_tokens_field: max_completion_tokens }
  b: { dialect: openai, base_url: "http://h/v1" }
`)
  expect(providers[0]).toMatchObject({ maxTokensField: 'max_completion_tokens' })
  expect(providers[1]).not.toHaveProperty('maxTokensField')
})

/** Each: what the operator wrote, and where and what the answer must say. */
const REFUSED: readonly (readonly [string, string, RegExp])[] = [
  [
    'an unknown dialect',
    'providers: { a: { dialect: opanai } }',
    /providers.a.dialect: must be .*did you mean 'openai'/,
  ],
  ['no dialect', 'providers: { a: { base_url: x } }', /providers.a.dialect: is missing/],
  [
    'a missing variable',
    'providers:\n  a:\n    dialect: openai\n    base_url: http://h/v1\n    api_key_env: NOT_SET',
    /:5:18: providers.a.api_key_env: the environment variable NOT_SET is not set/,
  ],
  ['no key for a provider', 'providers: { a: { dialect: gemini } }', /providers.a.api_key_env: is missing: it must be/],
  ['no address', 'providers: { a: { dialect: openai } }', /providers.a.base_url: is missing/],
  [
    'an address that goes too far',
    'providers: { a: { dialect: anthropic, base_url: "http://h/v1/messages" } }',
    /base_url: must end before '\/messages'/,
  ],
  [
    'a model in the address',
    'providers: { a: { dialect: gemini, base_url: "http://h/v1beta/models/m" } }',
    /base_url: must end before '\/models'/,
  ],
  [
    'a key twice for a provider',
    'providers: { a: { dialect: gemini, api_key_env: GEMINI_API_KEY, headers: { X-Goog-Api-Key: { env: VLLM_API_KEY } } } }',
    /is set from 'api_key_env': remove one of them/,
  ],
  [
    'the version of the wire format',
    'providers: { a: { dialect: anthropic, api_key_env: ANTHROPIC_API_KEY, headers: { anthropic-version: x } } }',
    /is set by the gateway: remove it/,
  ],
  [
    'a model of Anthropic without the limit of its answers',
    `providers: { a: { dialect: anthropic, base_url: "http://h" } }\nmodels:\n  - id: svc/m\n    context_length: 4096\n    ${PRICING}\n    targets: [{ provider: a, model: m }]`,
    /targets\[0\].provider: needs the model's max_output_tokens/,
  ],
  [
    'an empty variable',
    'providers: { a: { dialect: openai, base_url: "http://h", api_key_env: EMPTY } }',
    /EMPTY is not set/,
  ],
  [
    'a variable with a line break',
    'providers: { a: { dialect: openai, base_url: "http://h", api_key_env: BROKEN } }',
    /BROKEN holds characters/,
  ],
  [
    'a key in the file',
    'providers: { a: { dialect: openai, base_url: "http://h", api_key: sk-1 } }',
    /a credential must not be in this file/,
  ],
  [
    'a key as the name',
    'providers: { a: { dialect: openai, base_url: "http://h", api_key_env: sk-canary } }',
    /must be the name of an environment variable/,
  ],
  [
    'a secret header',
    'providers: { a: { dialect: openai, base_url: "http://h", headers: { x-api-key: canary } } }',
    /may be a credential/,
  ],
  [
    'a header of no form',
    'providers: { a: { dialect: openai, base_url: "http://h", headers: { x-a: 3 } } }',
    /headers.x-a: must be text, or/,
  ],
  [
    'an impossible pace',
    'providers: { a: { dialect: sandbox, tokens_per_second: fast } }',
    /tokens_per_second: must be a number from/,
  ],
  [
    'a header of ours',
    'providers: { a: { dialect: openai, base_url: "http://h", headers: { Content-Type: x } } }',
    /is set by the gateway/,
  ],
  [
    'a password in the address',
    'providers: { a: { dialect: openai, base_url: "http://u:canary@h" } }',
    /holds a user name or password/,
  ],
  [
    'usage in every chunk from a dialect that has no such thing',
    'providers: { a: { dialect: anthropic, base_url: "http://h", continuous_usage: true } }',
    /providers.a.continuous_usage: is for the dialect 'openai' alone/,
  ],
  [
    'a field for limits that is none',
    'providers:\n  a:\n    dialect: openai\n    base_url: http://h/v1\n    max_tokens_field: max_output_tokens',
    /:5:23: providers.a.max_tokens_field: must be 'max_tokens' or 'max_completion_tokens'/,
  ],
  [
    'a field for limits of a dialect that has one alone',
    'providers: { a: { dialect: gemini, base_url: "http://h", max_tokens_field: max_tokens } }',
    /providers.a.max_tokens_field: is for the dialect 'openai' alone/,
  ],
  [
    'a whole endpoint',
    'providers: { a: { dialect: openai, base_url: "http://h/v1/chat/completions" } }',
    /must end before/,
  ],
  [
    'no address',
    'providers: { a: { dialect: openai, base_url: "ftp://h" } }',
    /must be an address that starts with http/,
  ],
  ['no such file', 'providers: { a: { dialect: gguf, file: x.bin } }', /providers.a.file: there is no such file/],
  [
    'a reserved provider',
    'providers: { sandbox: { dialect: gguf, file: x.gguf } }',
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
