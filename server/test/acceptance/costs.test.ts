/** Every answer of a paid call says what it cost, so that customers can add up their own bill. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readBalance } from '../../src/billing/admission/balance/balance.ts'
import { type AskedGateway, openAskedGateway } from './ask.ts'
import { chat, directed, SETTINGS } from './catalog.ts'

const path = '/chat/completions'
const HEADER = 'Svc-Cost-Microcents'
const COMMENT = /\n\n: svc-cost-microcents=(\d+)\n\ndata: \[DONE\]\n\n$/

let gateway: AskedGateway
beforeAll(async () => {
  gateway = await openAskedGateway({ settings: SETTINGS })
}, 60_000)
afterAll(() => gateway.close())

test('the costs that whole and streamed answers say add up to what left the balance, to the micro-cent', async () => {
  const key = await gateway.customer()
  const balance = () => readBalance(gateway.database, key.organizationId)
  const before = await balance()
  let said = 0n
  for (let round = 0; round < 3; round += 1) {
    const whole = await gateway.ask({ path, key, body: chat() })
    expect(whole.headers.get(HEADER)).toMatch(/^[1-9]\d*$/)
    said += BigInt(whole.headers.get(HEADER) ?? 0)
    const streamed = await gateway.ask({ path, key, body: chat({ stream: true }) })
    expect(streamed.headers.has(HEADER)).toBe(false)
    said += BigInt(COMMENT.exec(streamed.text)?.[1] ?? 0)
  }
  expect(before - (await balance())).toBe(said)
})

test('a stream that breaks off says what came of it cost', async () => {
  const key = await gateway.customer()
  const before = await readBalance(gateway.database, key.organizationId)
  const broken = await gateway.ask({ path, key, body: directed('fail=faulty fail_after=3', { stream: true }) })
  expect(broken.text).toContain('"error"')
  const [, said = '0'] = COMMENT.exec(broken.text) ?? []
  expect(BigInt(said)).toBeGreaterThan(0n)
  expect(before - (await readBalance(gateway.database, key.organizationId))).toBe(BigInt(said))
})

test('an answer that cost nothing says nothing', async () => {
  const key = await gateway.customer()
  const refused = await gateway.ask({ path, key, body: directed('fail=faulty') })
  expect([refused.status, refused.headers.has(HEADER)]).toEqual([502, false])
  const unknown = await gateway.ask({ path, key, body: chat({ model: 'svc/x', stream: true }) })
  expect(unknown.text).not.toContain('cost-microcents')
  expect((await gateway.ask({ path: '/models', key })).headers.has(HEADER)).toBe(false)
})
