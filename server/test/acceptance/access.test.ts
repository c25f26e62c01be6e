/** Section 5 of the interface, K1 and B7: which key opens what, at every endpoint, served now or later. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway, readAnswer } from './ask.ts'
import { chat, film, picture, SETTINGS, words } from './catalog.ts'
import type { Answer } from './description.ts'
import { PAYING_SETTINGS } from './paymentRows.ts'
import { expectRefusal } from './refusals.ts'

/** Its answer has no end: the head of it is all that is read. */
const STREAM = '/manage/v1/events'
/** A window of days for an export. */
const DAYS = 'start=2026-01-01T00:00:00Z&end=2026-02-01T00:00:00Z'
const UUID = '01900000-0000-7000-8000-000000000000'

/**
 * The answer of each endpoint to a key that may: served (`unknown`: as far as there is what it names), or refused by
 * B7.
 */
type Outcome = 'served' | 'made' | 'accepted' | 'unknown' | 'not_found' | 'not-found' | 'payment-source-unavailable'
type Endpoint = [method: string, path: string, scope: string, outcome: Outcome]

const endpoints: Endpoint[] = [
  ['GET', '/models', 'serverless:read', 'served'],
  ['GET', '/models/svc/demo', 'serverless:read', 'served'],
  ['POST', '/chat/completions', 'serverless:write', 'served'],
  ['GET', '/billing/balance', 'billing:read', 'served'],
  ['GET', '/inference/preflight?model=svc/demo', 'serverless:read', 'served'],
  ['POST', '/embeddings', 'serverless:write', 'served'],
  ['POST', '/images/generations', 'serverless:write', 'served'],
  ['POST', '/videos', 'serverless:write', 'accepted'],
  ['GET', '/videos', 'serverless:read', 'served'],
  ['GET', '/videos/v1', 'serverless:read', 'unknown'],
  ['GET', '/videos/v1/content', 'serverless:read', 'unknown'],
  ['POST', '/videos/v1/cancel', 'serverless:write', 'unknown'],
  ['GET', '/webhook-endpoints', 'webhooks:read', 'served'],
  ['POST', '/webhook-endpoints', 'webhooks:write', 'made'],
  ['DELETE', `/webhook-endpoints/${UUID}`, 'webhooks:write', 'unknown'],
  ['GET', '/manage/v1/key', 'any', 'served'],
  ['GET', '/manage/v1/deliveries', 'webhooks:read', 'served'],
  ['GET', `/manage/v1/deliveries/${UUID}`, 'webhooks:read', 'unknown'],
  ['GET', STREAM, 'webhooks:read', 'served'],
  ['GET', '/manage/v1/charges', 'billing:read', 'served'],
  ['GET', `/manage/v1/charges/export?${DAYS}`, 'billing:read', 'served'],
  ['GET', '/manage/v1/ledger', 'billing:read', 'served'],
  ['GET', '/manage/v1/usage', 'billing:read', 'served'],
  ['GET', '/manage/v1/limits', 'billing:read', 'served'],
  ['GET', '/manage/v1/notices', 'billing:read', 'served'],
  ['GET', '/manage/v1/statements/2026-01', 'billing:read', 'served'],
  ['GET', '/manage/v1/statements/9998-01', 'billing:read', 'unknown'],
  ['POST', `/manage/v1/deliveries/${UUID}/redeliver`, 'webhooks:write', 'unknown'],
  ['POST', `/manage/v1/webhook-endpoints/${UUID}/test`, 'webhooks:write', 'unknown'],
  ['GET', `/operations/${UUID}`, 'any', 'not_found'],
  ['GET', '/instances/offerings', 'instances:read', 'not_found'],
  ['GET', '/instances', 'instances:read', 'not_found'],
  ['GET', '/instances?limit=5', 'instances:read', 'not_found'],
  ['POST', '/instances', 'instances:write', 'not_found'],
  ['GET', `/instances/${UUID}`, 'instances:read', 'not_found'],
  ['DELETE', `/instances/${UUID}`, 'instances:write', 'not_found'],
  ['POST', `/instances/${UUID}/app-password`, 'instances:write', 'not_found'],
  ['GET', '/usage', 'billing:read', 'served'],
  ['GET', '/billing/deposits', 'billing:read', 'not-found'],
  ['GET', '/billing/deposits?limit=5', 'billing:read', 'not-found'],
  ['POST', '/billing/deposits/crypto', 'billing:write', 'not-found'],
  ['GET', '/billing/deposits/d1', 'billing:read', 'not-found'],
  ['GET', '/billing/spending-limit', 'billing:read', 'served'],
  ['PUT', '/billing/spending-limit', 'billing:write admin', 'served'],
  ['GET', '/manage/v1/auto-pay', 'billing:read admin', 'not_found'],
  ['PUT', '/manage/v1/auto-pay', 'billing:write admin', 'not_found'],
  ['GET', '/billing/subscription', 'billing:read', 'served'],
  ['POST', '/billing/subscription/checkout', 'billing:write admin', 'payment-source-unavailable'],
  ['POST', '/billing/subscription/portal', 'billing:write admin', 'payment-source-unavailable'],
]

/** The same where payments are on. The portal opens for those who have begun a checkout. */
const payingEndpoints: Endpoint[] = [
  ['POST', '/billing/subscription/checkout', 'billing:write admin', 'served'],
  ['POST', '/billing/subscription/portal', 'billing:write admin', 'served'],
  ['POST', '/manage/v1/top-ups', 'billing:write', 'made'],
  ['GET', '/manage/v1/payments', 'billing:read', 'served'],
  [`GET`, `/manage/v1/payments/${UUID}`, 'billing:read', 'unknown'],
]

const SCOPES = [
  'full_access',
  'read_only',
  'serverless:read',
  'serverless:write',
  'billing:read',
  'billing:write',
  'webhooks:read',
  'webhooks:write',
  'instances:read',
  'instances:write',
  'serverless:write,billing:read',
] as const

let gateway: AskedGateway
let paying: AskedGateway
const keys = new Map<string, string>()

beforeAll(async () => {
  gateway = await openAskedGateway({ settings: SETTINGS })
  paying = await openAskedGateway({ settings: PAYING_SETTINGS, beside: gateway })
  for (const scopes of SCOPES) {
    keys.set(scopes, (await gateway.customer({ scopes })).key)
    keys.set(`${scopes} admin`, (await gateway.customer({ scopes, admin: true })).key)
  }
  // Without a limit there is nothing to show.
  await gateway.database.query('update accounts set monthly_limit_microcents = $1', [1_000_000_000n])
})
afterAll(async () => {
  await paying.close()
  await gateway.close()
})

/** The bodies that are posted, where they are not a chat. */
const BODIES: Readonly<Record<string, unknown>> = {
  '/embeddings': words(),
  '/images/generations': picture(),
  '/videos': film(),
  '/billing/subscription/checkout': {},
  '/billing/subscription/portal': {},
  '/manage/v1/top-ups': { amount_cents: 500 },
  [`/manage/v1/deliveries/${UUID}/redeliver`]: {},
  [`/manage/v1/webhook-endpoints/${UUID}/test`]: {},
  '/webhook-endpoints': { url: 'https://example.com/', event_types: ['video.failed'] },
}

async function ask(at: AskedGateway, [method, path]: Endpoint, key: string | undefined): Promise<Answer> {
  if (path === STREAM) return askStream(key)
  const posted = BODIES[path] ?? chat()
  const body = method === 'PUT' ? { monthly_limit_dollars: 10 } : method === 'POST' ? posted : undefined
  const headers = path === '/webhook-endpoints' && method === 'POST' ? { 'Idempotency-Key': crypto.randomUUID() } : {}
  return at.ask({ method, path, key, body, headers })
}

async function askStream(key: string | undefined): Promise<Answer> {
  const response = await gateway.send(STREAM, key === undefined ? {} : { headers: { Authorization: `Bearer ${key}` } })
  if (!response.ok) return readAnswer(response)
  await response.body?.cancel()
  return { status: response.status, headers: response.headers, text: '', json: undefined, events: [] }
}

/** K1, said again in the test's own words. */
function mayUse(scopes: string, isAdmin: boolean, [, , needed]: Endpoint): boolean {
  if (needed === 'any') return true
  const [permission = '', admin] = needed.split(' ')
  if (admin !== undefined && !isAdmin) return false
  if (scopes === 'full_access') return true
  if (scopes === 'read_only') return permission.endsWith(':read')
  return scopes.split(',').some((has) => has === permission || has === permission.replace(':read', ':write'))
}

const MANAGE = '/manage/v1'

/** A path of the list above as the description has it. */
function patternOf(path: string): string {
  if (path.startsWith('/models/')) return '/models/{id}'
  const [bare = ''] = path.split('?')
  return bare
    .replace(MANAGE, '')
    .replace(UUID, '{id}')
    .replace('/videos/v1', '/videos/{id}')
    .replace(/\/\d{4}-\d\d$/, '/{month}')
}

const envelopeOf = (path: string) => (/^\/(models|chat|embeddings|images|inference|videos)/.test(path) ? 'B' : 'A')

const STATUSES: Partial<Record<Outcome, number>> = { served: 200, made: 201, accepted: 202 }

describe.each([
  ...endpoints.map((endpoint) => [...endpoint, false] as const),
  ...payingEndpoints.map((endpoint) => [...endpoint, true] as const),
])('%s %s', (method, path, needed, outcome, isPaying) => {
  const endpoint: Endpoint = [method, path, needed, outcome]
  const at = () => (isPaying ? paying : gateway)

  test('needs a key', async () => {
    expectRefusal(await ask(at(), endpoint, undefined), envelopeOf(path), { status: 401, code: 'unauthenticated' })
    const malformed = await ask(at(), endpoint, 'svc_live_short')
    expectRefusal(malformed, envelopeOf(path), { status: 401, code: 'invalid_api_key' })
  })

  test.each([...SCOPES])(`with ${needed}, not with less: %s`, async (scopes) => {
    for (const isAdmin of [false, true]) {
      const answer = await ask(at(), endpoint, keys.get(isAdmin ? `${scopes} admin` : scopes))
      if (!mayUse(scopes, isAdmin, endpoint)) {
        const says = mayUse(scopes, true, endpoint) ? /needs an organization admin's key/ : /needs the scope/
        expectRefusal(answer, envelopeOf(path), { status: 403, code: 'insufficient_scope', says })
      } else if (STATUSES[outcome] !== undefined) {
        expect(answer.status).toBe(STATUSES[outcome])
      } else if (outcome === 'unknown') {
        expectRefusal(answer, envelopeOf(path), { status: 404, code: 'not_found', says: /There is no (such|video)/ })
      } else {
        const status = outcome === 'payment-source-unavailable' ? 503 : 404
        expectRefusal(answer, envelopeOf(path), { status, code: outcome, says: /on this server/ })
      }
    }
  })

  test('is described exactly if it is served', () => {
    const { paths } = path.startsWith(MANAGE) ? at().managed : at().description
    const pattern = patternOf(path)
    const described = paths[pattern]?.[method.toLowerCase()] !== undefined
    expect(described).toBe(outcome === 'unknown' || STATUSES[outcome] !== undefined)
  })
})

test('every endpoint that is described and needs a key has a row above', () => {
  const rows = [...endpoints, ...payingEndpoints].map(([method, path]) => `${method.toLowerCase()} ${patternOf(path)}`)
  for (const { paths } of [gateway.description, gateway.managed, paying.description, paying.managed]) {
    for (const [path, item] of Object.entries(paths)) {
      if (path === '/health' || path === '/openapi.json') continue
      for (const method of Object.keys(item)) expect(rows).toContain(`${method} ${path}`)
    }
  }
})

test.each(['/health', '/openapi.json'])('%s needs no key, and minds no bad one', async (path) => {
  expect((await gateway.ask({ path })).status).toBe(200)
  expect((await gateway.ask({ path, key: 'nonsense' })).status).toBe(200)
})

const headers: [string, string, number][] = [
  ['the scheme in other letters', 'bearer KEY', 200],
  ['two spaces', 'Bearer  KEY', 200],
  ['no scheme', 'KEY', 401],
  ['another scheme', 'Basic KEY', 401],
  ['no key', 'Bearer', 401],
  ['two keys', 'Bearer KEY, Bearer KEY', 401],
  ['a key and a comma', 'Bearer KEY,', 401],
  ['a longer key', 'Bearer KEYx', 401],
  ['a key with a space in it', 'Bearer svc_live_ KEY', 401],
  ['something after the key', 'Bearer KEY KEY', 401],
]
test.each(headers)('Authorization with %s', async (_name, header, status) => {
  const key = keys.get('full_access') ?? ''
  const answer = await gateway.ask({ path: '/models', headers: { Authorization: header.replaceAll('KEY', key) } })
  if (status === 401) expectRefusal(answer, 'B', { status, code: 'invalid_api_key' })
  else expect(answer.status).toBe(status)
})

test('no header but the key says who is asking (E16)', async () => {
  const other = await gateway.customer({ cents: 100 })
  const names = ['OpenAI-Organization', 'OpenAI-Project', 'X-Organization', 'X-Api-Key', 'Cookie', 'Organization']
  const headers = Object.fromEntries(names.map((name) => [name, other.organizationId]))
  const answer = await gateway.ask({ path: '/billing/balance', key: keys.get('full_access'), headers })
  expect((answer.json as { balance_cents: number }).balance_cents).not.toBe(100)
})
