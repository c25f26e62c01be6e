import { expect, test } from 'bun:test'
import { loadSettings } from './load.ts'

test('all mistakes of a file are told in one run, and none that only follows from another', () => {
  const text = `bogus: 1
trusted_proxies: [nonsense]
drain_seconds: -1
smtp: { host: h, from: a@b.c, user: x }
webhooks: { allow: [nope], ca_file: gone.pem, retry_seconds: [0] }
deadlines: { connect_seconds: 50, whole_seconds: 10 }
providers:
  UPPER: { dialect: openai, base_url: nourl, bogus: 1, api_key_env: NOPE }
  box: { dialect: sandbox }
models:
  - id: nope
    context_lenght: 1
    pricing: { input_per_1m_tokens_cents: -1 }
    targets: [{ provider: missing, weight: -1 }, { provider: UPPER }]
  - id: svc/x
    bad: 1
    aliases: ["a b"]
    pricing: {}
    targets: [{ provider: box }]
  - id: svc/x
    modality: sound
    pricing: {}
  - { id: svc/x, context_length: 10, pricing: { input_per_1m_tokens_cents: 10, output_per_1m_tokens_cents: 30 }, targets: [{ provider: box }] }
plans:
  - { key: A, input_tokens_monthly: 0 }
  - { key: a, name: x, bogus: 1, input_tokens_monthly: 1, output_tokens_monthly: 1, weekly_tokens: 1 }
  - { key: a, name: x, input_tokens_monthly: 1, output_tokens_monthly: 1, weekly_tokens: 1 }
`
  const around = { environment: {}, directory: '/etc/tollgate', fileExists: () => false }
  const loaded = loadSettings(text, around)
  expect(loaded.ok ? [] : loaded.problems.map(({ line, path }) => `${line} ${path}`)).toEqual([
    '1 bogus',
    '2 trusted_proxies[0]',
    '3 drain_seconds',
    '4 smtp.user',
    '5 webhooks.allow[0]',
    '5 webhooks.ca_file',
    '5 webhooks.retry_seconds[0]',
    '6 deadlines.connect_seconds',
    '8 providers.UPPER',
    '8 providers.UPPER.base_url',
    '8 providers.UPPER.bogus',
    '8 providers.UPPER.api_key_env',
    '11 models[0].id',
    '12 models[0].context_lenght',
    '13 models[0].pricing.input_per_1m_tokens_cents',
    '14 models[0].targets[0].provider',
    '14 models[0].targets[0].weight',
    '15 models[1].context_length',
    '16 models[1].bad',
    '17 models[1].aliases[0]',
    '18 models[1].pricing',
    '20 models[2].id',
    '21 models[2].modality',
    '23 models[3].id',
    '25 plans[0].name',
    '25 plans[0].output_tokens_monthly',
    '25 plans[0].weekly_tokens',
    '25 plans[0].key',
    '25 plans[0].input_tokens_monthly',
    '26 plans[1].bogus',
    '27 plans[2].key',
  ])
})

test('a credential that is missing is told beside a provider that is misspelt, once', () => {
  const text = `payments: { provider: strpie, secret_key_env: NO_KEY, webhook_secret_env: NO_SECRET }
accounts:
  identity_providers:
    - { provider: gogle, client_id: c, client_secret_env: NO_CLIENT }
    - { provider: github, client_id: c, client_secret_env: NO_OTHER }
public_url: https://gateway.example
`
  const pathsOf = (read: string) => {
    const loaded = loadSettings(read, { environment: {}, directory: '/', fileExists: () => false })
    return loaded.ok ? [] : loaded.problems.map(({ path }) => path)
  }
  const all = [
    'payments.provider',
    'payments.secret_key_env',
    'payments.webhook_secret_env',
    'accounts.identity_providers[0].provider',
    'accounts.identity_providers[0].client_secret_env',
    'accounts.identity_providers[1].client_secret_env',
  ]
  expect(pathsOf(text)).toEqual(all)
  expect(pathsOf(text.replace('strpie', 'stripe').replace('gogle', 'google'))).toEqual(
    all.filter((path) => !path.endsWith('.provider')),
  )
})
