/** Unknown keys without end, whose address they count for, and revocation in every process at once. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { systemClock } from '../../src/io/clock.ts'
import { revokeKey } from '../../src/keys/revoke.ts'
import { type AskedGateway, openAskedGateway } from './ask.ts'
import { SETTINGS } from './catalog.ts'

const PROXIED = `${SETTINGS}trusted_proxies: [10.0.0.0/8, "fd00::/8"]\n`
let plain: AskedGateway
let proxied: AskedGateway

beforeAll(async () => {
  plain = await openAskedGateway({ settings: SETTINGS })
  proxied = await openAskedGateway({ settings: PROXIED, beside: plain })
})
afterAll(async () => {
  await proxied.close()
  await plain.close()
})

let made = 0
/** Presents so many keys that nobody has, each another; gives the last status. */
async function search(gateway: AskedGateway, times: number, address: string, forwardedFor?: string): Promise<number> {
  let status = 0
  for (let index = 0; index < times; index += 1) {
    made += 1
    const key = `svc_live_${`${made}`.padStart(24, 'z')}`
    const headers = forwardedFor === undefined ? {} : { 'X-Forwarded-For': forwardedFor }
    status = (await gateway.ask({ path: '/models', key, address, headers })).status
  }
  return status
}

describe('more than 60 unknown keys a minute from one address', () => {
  test('are answered 429, in both envelopes; a key that is known passes', async () => {
    const address = '192.0.2.1'
    const customer = await plain.customer()
    expect((await plain.ask({ path: '/models', key: customer, address })).status).toBe(200)
    expect(await search(plain, 60, address)).toBe(401)
    expect(await search(plain, 1, address)).toBe(429)
    const key = `svc_live_${'y'.repeat(24)}`
    const inA = await plain.ask({ path: '/billing/balance', key, address })
    const inB = await plain.ask({ path: '/models', key, address })
    expect([inA.status, inA.json]).toMatchObject([429, { code: 'rate_limited' }])
    expect([inB.status, inB.json]).toMatchObject([429, { error: { code: 'rate_limit_exceeded' } }])
    for (const { headers } of [inA, inB]) expect(Number(headers.get('Retry-After'))).toBeWithin(1, 61)
    // Seen from elsewhere first: a process forgets its keys when it begins to hear of changes, shortly after its start.
    do expect((await plain.ask({ path: '/models', key: customer, address: '192.0.2.99' })).status).toBe(200)
    while ((await plain.ask({ path: '/models', key: customer, address })).status === 429)
    expect((await plain.ask({ path: '/models', address })).status).toBe(401)
  })

  test('do not stop another address', async () => {
    await search(plain, 61, '192.0.2.2')
    expect(await search(plain, 1, '192.0.2.2')).toBe(429)
    expect(await search(plain, 1, '192.0.2.3')).toBe(401)
  })

  test('count for a /64 of IPv6', async () => {
    for (let host = 1; host <= 60; host += 1) await search(plain, 1, `2001:db8:1:1::${host}`)
    expect(await search(plain, 1, '2001:db8:1:1:ffff::1')).toBe(429)
    expect(await search(plain, 1, '2001:db8:1:2::1')).toBe(401)
  })
})

describe('X-Forwarded-For', () => {
  test('means nothing without trusted_proxies: a client can not change its address', async () => {
    for (let index = 0; index < 60; index += 1) await search(plain, 1, '192.0.2.10', `198.51.100.${index}`)
    expect(await search(plain, 1, '192.0.2.10', '203.0.113.1')).toBe(429)
  })

  test('nor with them, from a socket that is no proxy', async () => {
    for (let index = 0; index < 60; index += 1) await search(proxied, 1, '192.0.2.11', `198.51.100.${index}`)
    expect(await search(proxied, 1, '192.0.2.11', '203.0.113.1')).toBe(429)
  })

  test('tells the clients behind a proxy apart', async () => {
    await search(proxied, 61, '10.0.0.1', '198.51.100.1')
    expect(await search(proxied, 1, '10.0.0.1', '198.51.100.1')).toBe(429)
    expect(await search(proxied, 1, '10.0.0.1', '198.51.100.2')).toBe(401)
    expect(await search(proxied, 1, 'fd00::1', '198.51.100.1')).toBe(429)
  })

  test('what stands left of the last address that a proxy wrote is the client’s own word', async () => {
    for (let index = 0; index < 60; index += 1) {
      await search(proxied, 1, '10.0.0.1', `203.0.113.${index}, 198.51.100.9, 10.0.0.7`)
    }
    expect(await search(proxied, 1, '10.0.0.1', '203.0.113.200, 198.51.100.9')).toBe(429)
  })
})

describe('two gateways on one database', () => {
  /** A notice is on its way for as long as the event loop takes to read it. */
  async function until(gateway: AskedGateway, key: { key: string }, status: number): Promise<void> {
    while ((await gateway.ask({ path: '/models', key })).status !== status) {
      await new Promise((resolve) => setImmediate(resolve))
    }
  }

  test('a key that is revoked is refused by both, however well they remember it', async () => {
    const customer = await plain.customer()
    const other = await plain.customer()
    for (const gateway of [plain, proxied]) {
      for (let times = 0; times < 3; times += 1) await until(gateway, customer, 200)
    }
    await revokeKey({ database: proxied.database, clock: systemClock }, customer.id)
    for (const gateway of [plain, proxied]) {
      await until(gateway, customer, 401)
      for (let times = 0; times < 3; times += 1) {
        const answer = await gateway.ask({ path: '/models', key: customer })
        expect([answer.status, answer.json]).toMatchObject([401, { error: { code: 'invalid_api_key' } }])
      }
      expect((await gateway.ask({ path: '/models', key: other })).status).toBe(200)
    }
  })

  test('a key made by one is known to the other', async () => {
    const customer = await proxied.customer()
    await until(plain, customer, 200)
  })

  test('a balance spent at one is spent at the other', async () => {
    const customer = await plain.customer({ cents: 100 })
    const body = {
      model: 'svc/dear',
      messages: [{ role: 'user', content: '[[sandbox prompt_tokens=50 tokens=1]]' }],
      max_tokens: 1,
    }
    expect((await proxied.ask({ path: '/chat/completions', key: customer, body })).status).toBe(402)
    const { json } = await plain.ask({ path: '/billing/balance', key: customer })
    expect(json).toMatchObject({ balance_cents: 100 })
  })
})
