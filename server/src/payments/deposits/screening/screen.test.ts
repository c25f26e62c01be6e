/** Screening before credit, with a real hook over HTTP and transfers that a chain has made final. */

import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { type DepositHouse, openDepositHouse, paidDeposit } from '../../../../test/deposits/depositHouse.ts'
import { FakeChain } from '../../../../test/deposits/fakeChain.ts'
import { until } from '../../../../test/until.ts'
import { systemFetch } from '../../../infra/fetch.ts'
import { Secret } from '../../../lib/secret.ts'
import { MINUTE_MS, SECOND_MS } from '../../../lib/time.ts'
import { freezeOrganization, unfreezeOrganization } from '../../freezes/freezes.ts'
import type { ChainReader } from '../chains/chain.ts'
import { listTransfers } from '../operator/list.ts'
import { decideHeld } from '../transfers/decide.ts'
import { createAskHook } from './hook.ts'

const HOOK_SECRET = 'hook-secret-91ad'

let chain: FakeChain
let house: DepositHouse
let hook: ReturnType<typeof Bun.serve>
let answer: () => Response | Promise<Response>
let asked: { readonly authorization: string | null; readonly body: Record<string, unknown> }[]
beforeAll(async () => {
  hook = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const body = (await request.json()) as Record<string, unknown>
      asked.push({ authorization: request.headers.get('Authorization'), body })
      return answer()
    },
  })
  chain = new FakeChain('ethereum')
  house = await openDepositHouse({ chain: 'ethereum', nodes: [], tokens: chain.tokens, reader: chain })
  house.hook = hookAt(`http://127.0.0.1:${hook.port}`)
  await house.look()
})
beforeEach(() => {
  asked = []
})
afterAll(async () => {
  await hook.stop(true)
  await house.close()
})

function hookAt(origin: string) {
  const settings = { url: new Secret(`${origin}/${HOOK_SECRET}`), bearer: new Secret(HOOK_SECRET) }
  return createAskHook(settings, house.clock, systemFetch)
}

/** A deposit of $5 whose tokens are final, and that was screened once. */
async function paid() {
  const deposit = await paidDeposit(house, chain)
  await house.look()
  return deposit
}

const statusOf = async (id: string) => (await house.find(id)).status
const verdict = (body: object) => () => Response.json(body)

test('a transfer that passes is credited; the hook hears of the deposit, the sender and the exact amount', async () => {
  answer = verdict({ verdict: 'pass' })
  const { id } = await paid()
  expect(await statusOf(id)).toBe('credited')
  expect(asked).toEqual([
    {
      authorization: `Bearer ${HOOK_SECRET}`,
      body: expect.objectContaining({ deposit_id: id, chain: 'ethereum', asset: 'usdc', amount: '5.00' }),
    },
  ])
})

test('the hook hears of every sender of the transaction, of most first', async () => {
  answer = verdict({ verdict: 'pass' })
  const otherSenders = ['0xother', '0xthird']
  const reader: ChainReader = Object.assign(Object.create(chain), {
    finalTransfers: async (...asked: Parameters<ChainReader['finalTransfers']>) =>
      (await chain.finalTransfers(...asked)).map((each) => ({ ...each, otherSenders })),
  })
  const { address } = await house.create(await house.customer(), 500)
  chain.pay(address, 5_000_000n)
  chain.mine()
  chain.finalize()
  await house.watch(reader)
  await house.screen()
  const [{ body = {} } = {}] = asked as readonly { readonly body?: { readonly sender?: string } }[]
  expect(body).toMatchObject({ senders: [body.sender ?? '', ...otherSenders] })
})

test('a reason that is null is none', async () => {
  answer = verdict({ verdict: 'pass', reason: null })
  const { id } = await paid()
  expect(await statusOf(id)).toBe('credited')
})

test('a rejected transfer is never credited', async () => {
  answer = verdict({ verdict: 'reject', reason: 'listed' })
  const { id, organizationId } = await paid()
  expect(await statusOf(id)).toBe('failed_screening')
  answer = verdict({ verdict: 'pass' })
  await house.clock.turn(120 * MINUTE_MS)
  await house.look()
  expect(await house.credits(organizationId)).toEqual([])
})

test.each([
  ['fails', () => new Response('', { status: 500 })],
  ['answers with something else', verdict({ fine: true })],
  ['sends no JSON', () => new Response('fine')],
  ['redirects', () => new Response('', { status: 302, headers: { Location: 'http://127.0.0.1:1/' } })],
  ['wants a person', verdict({ verdict: 'hold', reason: 'look' })],
])('while the hook %s the deposit is held; it is asked again, and then credited once', async (_, bad) => {
  answer = bad
  const { id, organizationId } = await paid()
  expect(await statusOf(id)).toBe('held_screening')
  await house.look()
  expect(asked).toHaveLength(1)
  answer = verdict({ verdict: 'pass' })
  await house.clock.turn(2 * MINUTE_MS)
  await house.look()
  expect(await statusOf(id)).toBe('credited')
  expect(await house.credits(organizationId)).toHaveLength(1)
})

test('a hook that does not answer is given ten seconds; then the deposit is held, and it is asked again', async () => {
  answer = () => new Promise(() => {})
  const waiting = house.clock.pending
  const paying = paid()
  await until(async () => asked.length > 0)
  await house.clock.turn(10 * SECOND_MS - 1)
  expect(house.clock.pending).toBe(waiting + 1)
  await house.clock.turn(1)
  expect(house.clock.pending).toBe(waiting)
  const { id, organizationId } = await paying
  expect(await statusOf(id)).toBe('held_screening')
  expect(await house.credits(organizationId)).toEqual([])
  answer = verdict({ verdict: 'pass' })
  await house.clock.turn(2 * MINUTE_MS)
  await house.look()
  expect(await statusOf(id)).toBe('credited')
  expect([asked.length, (await house.credits(organizationId)).length]).toEqual([2, 1])
})

test('while a hook refuses connections the deposit is held; once it is there again it is asked, and credited once', async () => {
  const closed = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response() })
  const { port } = closed
  await closed.stop(true)
  const there = house.hook
  house.hook = hookAt(`http://127.0.0.1:${port}`)
  answer = verdict({ verdict: 'pass' })
  const { id, organizationId } = await paid()
  expect([await statusOf(id), asked]).toEqual(['held_screening', []])
  expect(await house.credits(organizationId)).toEqual([])
  house.hook = there
  await house.clock.turn(2 * MINUTE_MS)
  await house.look()
  expect(await statusOf(id)).toBe('credited')
  expect([asked.length, (await house.credits(organizationId)).length]).toEqual([1, 1])
})

test.each([
  ['credit', { kind: 'credit' }, 'credited', 1],
  ['reject', { kind: 'reject', reason: 'by the operator' }, 'failed_screening', 0],
] as const)('the operator may %s what is held, once', async (_, decision, status, credits) => {
  answer = () => new Response('', { status: 500 })
  const { id, organizationId } = await paid()
  expect(await decideHeld(house.dependencies(), id, decision)).toBe(1)
  expect(await decideHeld(house.dependencies(), id, decision)).toBe(0)
  expect(await statusOf(id)).toBe(status)
  answer = verdict({ verdict: 'pass' })
  await house.clock.turn(120 * MINUTE_MS)
  await house.look()
  expect(await house.credits(organizationId)).toHaveLength(credits)
})

test('a deposit that an organization began before it was frozen is credited, under screening once that is over (B11)', async () => {
  answer = verdict({ verdict: 'pass' })
  const organizationId = await house.customer()
  const [first, second] = [await house.create(organizationId, 500), await house.create(organizationId, 500)]
  const freeze = { cause: '', note: null, frozenAtMs: house.clock.now() }
  await freezeOrganization(house.database, organizationId, { ...freeze, reason: 'dispute' })
  chain.pay(first.address, 5_000_000n)
  chain.mine()
  chain.finalize()
  await house.look()
  expect(await statusOf(first.id)).toBe('credited')
  await freezeOrganization(house.database, organizationId, { ...freeze, reason: 'screening' })
  chain.pay(second.address, 5_000_000n)
  chain.mine()
  chain.finalize()
  await house.look()
  expect(await statusOf(second.id)).toBe('held_screening')
  await unfreezeOrganization(house.database, organizationId, 'screening')
  await house.clock.turn(2 * MINUTE_MS)
  await house.look()
  expect(await statusOf(second.id)).toBe('credited')
})

test('the first payment is that which makes a deposit reach the minimum (K2, B12)', async () => {
  answer = verdict({ verdict: 'pass' })
  const organizationId = await house.customer({ standing: 'new' })
  const standing = async () => {
    const rows = await house.database.query<{ standing: string; paid: boolean }>(
      'select standing, first_paid_at is not null as paid from organizations where id = $1::uuid',
      [organizationId],
    )
    return rows[0]?.paid
  }
  const { address } = await house.create(organizationId, 500)
  for (const [units, isPaid] of [
    [4_999_999n, false],
    [1n, true],
  ] as const) {
    chain.pay(address, units)
    chain.mine()
    chain.finalize()
    await house.look()
    expect(await standing()).toBe(isPaid)
  }
})

test('what is released at once counts together as the first payment (K2, B12)', async () => {
  answer = verdict({ verdict: 'hold', reason: 'look' })
  const organizationId = await house.customer({ standing: 'new' })
  const { id, address } = await house.create(organizationId, 600)
  chain.pay(address, 3_000_000n, 3_000_000n)
  chain.mine()
  chain.finalize()
  await house.look()
  expect(await decideHeld(house.dependencies(), id, { kind: 'credit' })).toBe(2)
  const rows = await house.database.query<{ paid: boolean }>(
    'select first_paid_at is not null as paid from organizations where id = $1::uuid',
    [organizationId],
  )
  expect(rows).toEqual([{ paid: true }])
  expect(await house.find(id)).toMatchObject({ status: 'credited', creditedMicrocents: 600_000_000n })
})

test('the operator decides about the sum that they saw, and not about what has come since', async () => {
  answer = verdict({ verdict: 'hold', reason: 'look' })
  const { id } = await paid()
  const { address } = await house.find(id)
  chain.pay(address, 2_000_000n)
  chain.mine()
  chain.finalize()
  await house.look()
  expect(await decideHeld(house.dependencies(), id, { kind: 'credit' }, 5_000_000n)).toEqual({ heldUnits: 7_000_000n })
  expect(await statusOf(id)).toBe('held_screening')
  expect(await decideHeld(house.dependencies(), id, { kind: 'credit' }, 7_000_000n)).toBe(2)
})

test('control characters in the words of the hook are kept from rows and terminals', async () => {
  answer = verdict({ verdict: 'reject', reason: 'a\u0000b\u001b[31mc' })
  const { id } = await paid()
  expect(await statusOf(id)).toBe('failed_screening')
  const [row] = (await listTransfers(house.database, id)).transfers
  expect(row?.reason).toBe('rejected by the screening: a b [31mc')
})

test('neither the address of the hook nor its secret is in a log', () => {
  expect(house.logs.join('\n')).not.toContain(HOOK_SECRET)
})
