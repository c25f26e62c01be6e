/** Unknown keys without end, and revocation in every process at once. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { revokeKey } from '../../src/identity/keys/revoke.ts'
import { systemClock } from '../../src/infra/clock.ts'
import { type AskedGateway, openAskedGateway } from './ask.ts'
import { SETTINGS } from './catalog.ts'

let plain: AskedGateway
let second: AskedGateway

beforeAll(async () => {
  plain = await openAskedGateway({ settings: SETTINGS })
  second = await openAskedGateway({ settings: SETTINGS, beside: plain })
})
afterAll(async () => {
  await second.close()
  await plain.close()
})

let made = 0
/** Presents so many keys that nobody has, each another; returns every status that came. */
async function search(gateway: AskedGateway, times: number, address: string): Promise<Set<number>> {
  const statuses = new Set<number>()
  for (let index = 0; index < times; index += 1) {
    made += 1
    const key = `svc_live_${`${made}`.padStart(24, 'z')}`
    statuses.add((await gateway.ask({ path: '/models', key, address })).status)
  }
  return statuses
}

describe('unknown keys without end from one address', () => {
  test('are answered 401 each, in both envelopes; keys that are valid pass, known to the process or not', async () => {
    const address = '192.0.2.1'
    const known = await plain.customer()
    expect((await plain.ask({ path: '/models', key: known, address })).status).toBe(200)
    expect(await search(plain, 200, address)).toEqual(new Set([401]))
    const key = `svc_live_${'y'.repeat(24)}`
    const inA = await plain.ask({ path: '/billing/balance', key, address })
    const inB = await plain.ask({ path: '/models', key, address })
    expect([inA.status, inA.json]).toMatchObject([401, { code: 'invalid_api_key' }])
    expect([inB.status, inB.json]).toMatchObject([401, { error: { code: 'invalid_api_key' } }])
    expect((await plain.ask({ path: '/models', key: known, address })).status).toBe(200)
    const later = await plain.customer()
    expect((await plain.ask({ path: '/models', key: later, address })).status).toBe(200)
    expect((await plain.ask({ path: '/models', address })).status).toBe(401)
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
    for (const gateway of [plain, second]) {
      for (let times = 0; times < 3; times += 1) await until(gateway, customer, 200)
    }
    await revokeKey({ database: second.database, clock: systemClock }, customer.id)
    for (const gateway of [plain, second]) {
      await until(gateway, customer, 401)
      for (let times = 0; times < 3; times += 1) {
        const answer = await gateway.ask({ path: '/models', key: customer })
        expect([answer.status, answer.json]).toMatchObject([401, { error: { code: 'invalid_api_key' } }])
      }
      expect((await gateway.ask({ path: '/models', key: other })).status).toBe(200)
    }
  })

  test('a key made by one is known to the other', async () => {
    const customer = await second.customer()
    await until(plain, customer, 200)
  })

  test('a balance spent at one is spent at the other', async () => {
    const customer = await plain.customer({ cents: 100 })
    const body = {
      model: 'svc/dear',
      messages: [{ role: 'user', content: '[[sandbox prompt_tokens=50 tokens=1]]' }],
      max_tokens: 1,
    }
    expect((await second.ask({ path: '/chat/completions', key: customer, body })).status).toBe(402)
    const { json } = await plain.ask({ path: '/billing/balance', key: customer })
    expect(json).toMatchObject({ balance_cents: 100 })
  })
})
