/** Section 5 of the interface, K1 and B7: which key opens what, at every endpoint, served now or later. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from './ask.ts'
import { chat, film, picture, SETTINGS, words } from './catalog.ts'
import { expectRefusal } from './refusals.ts'

const UUID = '01900000-0000-7000-8000-000000000000'

/** What each endpoint answers to a key that may: served (`unknown`: as far as there is what it names), or refused by B7. */
type Outcome = 'served' | 'accepted' | 'unknown' | 'not_found' | 'not-found' | 'payment-source-unavailable'
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
  ['POST', '/webhook-endpoints', 'webhooks:write', 'served'],
  ['DELETE', `/webhook-endpoints/${UUID}`, 'webhooks:write', 'unknown'],
  ['GET', '/manage/v1/deliveries', 'webhooks:read', 'served'],
  ['POST', `/manage/v1/deliveries/${UUID}/redeliver`, 'webhooks:write', 'unknown'],
  ['POST', `/manage/v1/webhook-endpoints/${UUID}/test`, 'webhooks:write', 'unknown'],
  ['GET', `/operations/${UUID}`, 'any', 'not_found'],
  ['GET', '/usage', 'billing:read', 'served'],
  ['GET', '/billing/deposits', 'billing:read', 'not-found'],
  ['POST', '/billing/deposits/crypto', 'billing:write', 'not-found'],
  ['GET', '/billing/deposits/d1', 'billing:read', 'not-found'],
  ['GET', '/billing/spending-limit', 'billing:read', 'served'],
  ['PUT', '/billing/spending-limit', 'billing:write admin', 'served'],
  ['GET', '/billing/subscription', 'billing:read', 'served'],
  ['POST', '/billing/subscription/checkout', 'billing:write admin', 'payment-source-unavailable'],
  ['POST', '/billing/subscription/portal', 'billing:write admin', 'payment-source-unavailable'],
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
  'serverless:write,billing:read',
] as const

let gateway: AskedGateway
const keys = new Map<string, string>()

beforeAll(async () => {
  gateway = await openAskedGateway({ settings: SETTINGS })
  for (const scopes of SCOPES) {
    keys.set(scopes, (await gateway.customer({ scopes })).key)
    keys.set(`${scopes} admin`, (await gateway.customer({ scopes, admin: true })).key)
  }
  // Without a limit there is nothing to show.
  await gateway.database.query('update accounts set monthly_limit_microcents = $1', [1_000_000_000n])
})
afterAll(() => gateway.close())

/** What is posted, where it is not a chat. */
const BODIES: Readonly<Record<string, unknown>> = {
  '/embeddings': words(),
  '/images/generations': picture(),
  '/videos': film(),
  '/webhook-endpoints': { url: 'https://example.com/', event_types: ['video.failed'] },
}

function ask([method, path]: Endpoint, key: string | undefined) {
  const posted = BODIES[path] ?? chat()
  const body = method === 'PUT' ? { monthly_limit_dollars: 10 } : method === 'POST' ? posted : undefined
  const headers = path === '/webhook-endpoints' && method === 'POST' ? { 'Idempotency-Key': crypto.randomUUID() } : {}
  return gateway.ask({ method, path, key, body, headers })
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

const envelopeOf = (path: string) => (/^\/(models|chat|embeddings|images|inference|videos)/.test(path) ? 'B' : 'A')

describe.each(endpoints)('%s %s', (...endpoint) => {
  const [method, path, needed, outcome] = endpoint

  test('needs a key', async () => {
    expectRefusal(await ask(endpoint, undefined), envelopeOf(path), { status: 401, code: 'unauthenticated' })
    const malformed = await ask(endpoint, 'svc_live_short')
    expectRefusal(malformed, envelopeOf(path), { status: 401, code: 'invalid_api_key' })
  })

  test.each([...SCOPES])(`with ${needed}, not with less: %s`, async (scopes) => {
    for (const isAdmin of [false, true]) {
      const answer = await ask(endpoint, keys.get(isAdmin ? `${scopes} admin` : scopes))
      if (!mayUse(scopes, isAdmin, endpoint)) {
        const says = mayUse(scopes, true, endpoint) ? /needs an organization admin's key/ : /needs the scope/
        expectRefusal(answer, envelopeOf(path), { status: 403, code: 'insufficient_scope', says })
      } else if (outcome === 'served' || outcome === 'accepted') {
        const made = path === '/webhook-endpoints' && method === 'POST' ? 201 : 200
        expect(answer.status).toBe(outcome === 'served' ? made : 202)
      } else if (outcome === 'unknown') {
        expectRefusal(answer, envelopeOf(path), { status: 404, code: 'not_found', says: /There is no (such|video)/ })
      } else {
        const status = outcome === 'payment-source-unavailable' ? 503 : 404
        expectRefusal(answer, envelopeOf(path), { status, code: outcome, says: /on this server/ })
      }
    }
  })

  test('is described exactly if it is served', () => {
    const isManaged = path.startsWith('/manage/v1')
    const bare = (path.split('?')[0] ?? '')
      .replace('/manage/v1', '')
      .replace(UUID, '{id}')
      .replace('/videos/v1', '/videos/{id}')
    const pattern = path.startsWith('/models/') ? '/models/{id}' : bare
    const { paths } = isManaged ? gateway.managed : gateway.description
    const described = paths[pattern]?.[method.toLowerCase()] !== undefined
    expect(described).toBe(['served', 'accepted', 'unknown'].includes(outcome))
  })
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
