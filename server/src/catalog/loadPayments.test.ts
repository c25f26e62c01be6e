import { expect, test } from 'bun:test'
import { loadSettings } from './load.ts'

const environment = { STRIPE_KEY: 'sk_test_x', STRIPE_WEBHOOK: 'whsec_x' }

function load(section: string) {
  const loaded = loadSettings(`payments: ${section}\n`, { environment, directory: '/', fileExists: () => false })
  return loaded.ok ? loaded.settings.fixed.payments : loaded.problems.map(({ path, reason }) => `${path}: ${reason}`)
}

test('local needs nothing else', () => {
  expect(load('{ provider: local }')).toEqual({
    provider: { name: 'local' },
    topUpMinCents: 500,
    topUpMaxCents: 1_000_000,
  })
})

test('stripe takes its secrets from the environment', () => {
  const read = load('{ provider: stripe, secret_key_env: STRIPE_KEY, webhook_secret_env: STRIPE_WEBHOOK }')
  expect(JSON.stringify(read)).not.toMatch(/sk_test|whsec/)
  expect(read).toMatchObject({ provider: { name: 'stripe', automaticTax: false, apiUrl: null } })
})

test.each([
  ['{ provider: paypal }', "payments.provider: must be 'local' or 'stripe'"],
  ['{ provider: stripe }', "payments.provider: needs 'secret_key_env' beside it"],
  ['{ provider: stripe, secret_key_env: NONE }', 'the environment variable NONE is not set'],
  ['{ provider: stripe, secret_key: sk_test_x }', "name that in 'secret_key_env'"],
  ['{ provider: stripe, secret_key_env: sk_live_x }', 'never the credential itself'],
  ['{ provider: local, secret_key_env: STRIPE_KEY }', 'is for the provider stripe only'],
  ['{ provider: local, top_up_min_cents: 49 }', 'must be at least 50'],
  ['{ provider: local, top_up_min_cents: 900, top_up_max_cents: 800 }', 'must be at least top_up_min_cents, 900'],
  ['{ provider: stripe, secret_key_env: STRIPE_KEY, api_url: "http://api.example" }', 'must be https'],
])('%s is refused', (section, reason) => {
  const problems = load(section)
  expect(problems).toContainEqual(expect.stringContaining(reason))
  expect(JSON.stringify(problems)).not.toContain('sk_test_x')
})

test.each([
  'https://gateway.example/path',
  'gateway.example',
  'https://me@gateway.example',
  // Would end the directive of a page's Content-Security-Policy, and begin another one.
  'https://a;sandbox',
  'https://a,b',
  "https://a'b",
  'https://a:99999',
])('public_url %s is refused', (url) => {
  const loaded = loadSettings(`public_url: "${url}"\n`, { environment, directory: '/', fileExists: () => false })
  expect(loaded.ok).toBe(false)
  expect(loaded.ok ? [] : loaded.problems).toHaveLength(1)
})

test.each([
  'https://gateway.example',
  'https://gateway_1.example:8443',
  'http://[::1]:8080',
  'https://bücher.example/',
])('public_url %s is taken', (url) => {
  const loaded = loadSettings(`public_url: "${url}"\n`, { environment, directory: '/', fileExists: () => false })
  expect(loaded.ok).toBe(true)
})

test.each([
  ['local', 'local_2000_month', []],
  [
    'local',
    'price_1Example',
    ['plans[0].payment_price: must be a price of the local payment provider, such as local_2000_month'],
  ],
  ['stripe, secret_key_env: STRIPE_KEY', 'price_1Example', []],
  [
    'stripe, secret_key_env: STRIPE_KEY',
    'local_2000_month',
    ["plans[0].payment_price: is a price of the local payment provider: write Stripe's id of a price, such as price_…"],
  ],
])('a plan is sold at a price of the provider: %s, %s', (provider, price, expected) => {
  const quota = 'input_tokens_monthly: 10, output_tokens_monthly: 10, weekly_tokens: 10'
  const plan = `{ key: a, name: A, ${quota}, max_usage_cents: 1, payment_price: ${price} }`
  const text = `payments: { provider: ${provider} }\nplans:\n  - ${plan}\n`
  const loaded = loadSettings(text, { environment, directory: '/', fileExists: () => false })
  expect(loaded.ok ? [] : loaded.problems.map(({ path, reason }) => `${path}: ${reason}`)).toEqual(expected)
})
