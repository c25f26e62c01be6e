/** The lists of the management interface that are about money: notices, entries of the ledger, and limits. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from '../../test/acceptance/ask.ts'
import type { TestKey } from '../../test/customer.ts'
import { systemRandom } from '../infra/random.ts'
import { grantCredit } from './ledger/grantCredit.ts'

const START = Date.UTC(2026, 0, 1)

let gateway: AskedGateway
let customer: TestKey
let other: TestKey
beforeAll(async () => {
  gateway = await openAskedGateway()
  customer = await gateway.customer({ cents: 0 })
  other = await gateway.customer({ cents: 0 })
})
afterAll(() => gateway.close())

interface Page {
  readonly data: readonly Readonly<Record<string, unknown>>[]
  readonly next_cursor: string | null
}

/** All pages of a list, so many entries each. */
async function listAll(path: string, key: TestKey, limit: number): Promise<Page['data']> {
  const data: Page['data'][number][] = []
  let cursor: string | null = ''
  while (cursor !== null) {
    const more: string = cursor === '' ? '' : `&cursor=${cursor}`
    const answer = await gateway.ask({ path: `/manage/v1/${path}?limit=${limit}${more}`, key })
    expect(answer.status).toBe(200)
    const page = answer.json as Page
    data.push(...page.data)
    cursor = page.next_cursor
  }
  return data
}

describe('GET /manage/v1/ledger', () => {
  test('lists the entries on pages of any size, the newest first, each once, without those of dropped charges', async () => {
    // Two of one instant, at the end of a page.
    for (const [index, atMs] of [START, START, START + 1, START + 2, START + 2].entries())
      for (const { organizationId } of [customer, other])
        await gateway.database.transaction((tx) =>
          grantCredit(tx, systemRandom(), {
            organizationId,
            amountMicrocents: BigInt(index + 1),
            source: `test:${organizationId}:${index}`,
            note: 'for the operator',
            isPayment: false,
            atMs,
          }),
        )
    await gateway.database.query(
      `insert into ledger_entries (id, organization_id, amount_microcents, kind, source, posted_at)
       values (gen_random_uuid(), $1, -5, 'charges', 'test: dropped', $2)`,
      [customer.organizationId, new Date(START)],
    )
    const whole = await listAll('ledger', customer, 200)
    expect(whole.map(({ amount_microcents }) => amount_microcents).slice(2)).toEqual(
      expect.arrayContaining(['3', '2', '1']) as unknown as unknown[],
    )
    expect(whole).toHaveLength(5)
    expect(JSON.stringify(whole)).not.toContain('for the operator')
    for (const limit of [1, 2, 3]) expect(await listAll('ledger', customer, limit)).toEqual(whole)
  })
})

describe('GET /manage/v1/notices', () => {
  test('lists the notices on pages of any size, the newest first, each once, without their links', async () => {
    const rows = [
      ['daily', START, START + 5],
      ['monthly', START, START + 5],
      ['low_balance', START + 5, START + 5],
      ['low_balance', START + 4, START + 5],
      ['auto_pay_off', START + 9, START + 9],
    ] as const
    for (const [kind, periodMs, atMs] of rows)
      for (const { organizationId } of [customer, other])
        await gateway.database.query(
          `insert into notices (organization_id, kind, period, amount_microcents, limit_microcents, enforcement, noticed_at, link)
           values ($1, $2, $3, -7, 9, 'block_launch', $4, 'https://pay.example/secret')`,
          [organizationId, kind, new Date(periodMs), new Date(atMs)],
        )
    const whole = await listAll('notices', customer, 200)
    expect(whole.map(({ kind, period_start }) => [kind, period_start])).toEqual([
      ['auto_pay_off', '2026-01-01T00:00:00.009Z'],
      ['daily', '2026-01-01T00:00:00.000Z'],
      ['low_balance', '2026-01-01T00:00:00.004Z'],
      ['low_balance', '2026-01-01T00:00:00.005Z'],
      ['monthly', '2026-01-01T00:00:00.000Z'],
    ])
    expect(whole[0]).toMatchObject({ amount_microcents: '-7', limit_microcents: '9', enforcement: 'block_launch' })
    expect(JSON.stringify(whole)).not.toContain('secret')
    for (const limit of [1, 2, 3]) expect(await listAll('notices', customer, limit)).toEqual(whole)
  })
})

describe('GET /manage/v1/limits', () => {
  test('shows the spending limit, and the cap of a new account', async () => {
    const key = await gateway.customer({ admin: true })
    expect((await gateway.ask({ path: '/manage/v1/limits', key })).json).toEqual({
      spending_limit: null,
      new_account: null,
    })
    await gateway.ask({ method: 'PUT', path: '/billing/spending-limit', key, body: { monthly_limit_dollars: 12 } })
    const shown = await gateway.ask({ path: '/manage/v1/limits', key })
    expect(shown.json).toMatchObject({ spending_limit: { monthly_limit_cents: 1_200 }, new_account: null })
    const fresh = await gateway.customer({ standing: 'new' })
    expect((await gateway.ask({ path: '/manage/v1/limits', key: fresh })).json).toMatchObject({
      spending_limit: null,
      new_account: { cap_cents: 2_000, spent_cents: 0 },
    })
  })
})

test.each(['ledger', 'notices'])('GET /manage/v1/%s refuses a cursor of another list', async (list) => {
  const cursorOf = (...parts: unknown[]) => Buffer.from(JSON.stringify(parts)).toString('base64url')
  for (const cursor of ['', 'x', cursorOf(1, 'keys', crypto.randomUUID()), cursorOf(1, list, 1e300, 'daily', 0)]) {
    const answer = await gateway.ask({ path: `/manage/v1/${list}?cursor=${cursor}`, key: customer })
    expect([answer.status, (answer.json as { code: string }).code]).toEqual([422, 'validation_failed'])
  }
})
