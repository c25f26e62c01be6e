/** The pool of addresses: imported, given out once, and never after they were used. */

import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { type DepositHouse, openDepositHouse } from '../../../../test/deposits/depositHouse.ts'
import { openRpcProxy, type RpcProxy } from '../../../../test/deposits/rpcProxy.ts'
import { newWallets, SolanaTestChain } from '../../../../test/deposits/solanaChain.ts'
import { makeSolanaToken, type SolanaTestToken } from '../../../../test/deposits/solanaToken.ts'
import { createLog } from '../../../infra/log.ts'
import { MINUTE_MS } from '../../../lib/time.ts'
import { createPoolGauge } from './gauge.ts'
import { createPoolAddresses } from './offer.ts'
import { countFree } from './store.ts'

let chain: SolanaTestChain
let usdc: SolanaTestToken
let nodes: RpcProxy[]
let house: DepositHouse
beforeAll(async () => {
  chain = await SolanaTestChain.open()
  usdc = await makeSolanaToken(chain)
  nodes = [openRpcProxy(chain.url), openRpcProxy(chain.url)]
  const urls = nodes.map(({ url }) => url)
  house = await openDepositHouse({ chain: 'solana', nodes: urls, tokens: { usdc: usdc.address } })
})
beforeEach(async () => {
  for (const node of nodes) Object.assign(node, { isUp: true, falsify: (_: unknown, result: unknown) => result })
  await house.database.query(`update deposit_pool set state = 'retired', lease = null, reserved_until = null`)
})
afterAll(async () => {
  await house.close()
  for (const node of nodes) node.close()
  await chain.close()
})

const free = () => countFree(house.database, 'solana')
const refusalOf = async (work: Promise<unknown>) =>
  work.then(
    () => null,
    (error: { refusal?: { code: string } }) => error.refusal?.code ?? error,
  )

test('each deposit has an address of the pool of its own, until none is left', async () => {
  const wallets = await newWallets(3)
  expect(await house.importAddresses(wallets)).toEqual({ ok: true, imported: 3, skipped: [], retired: 0, free: 3 })
  const organizationId = await house.customer()
  const deposits = await Promise.all([500, 600, 700].map((cents) => house.create(organizationId, cents)))
  expect(deposits.map(({ address }) => address).sort()).toEqual([...wallets].sort())
  expect(deposits[0]).toMatchObject({ addressIndex: null, keyFingerprint: null })
  expect(await free()).toBe(0)
  expect(await refusalOf(house.create(organizationId, 500))).toBe('payment-source-unavailable')
})

test('an address is drawn at random, so that a restored backup does not give the same ones in the same order', async () => {
  const wallets = await newWallets(40)
  await house.importAddresses(wallets)
  const draw = async () => {
    const drawn: string[] = []
    for (let count = 0; count < 5; count += 1) drawn.push((await house.create(await house.customer(), 500)).address)
    await house.database.query(`delete from deposits where address = any($1::text::text[])`, [`{${drawn.join()}}`])
    await house.database.query(`update deposit_pool set state = 'free' where address = any($1::text::text[])`, [
      `{${drawn.join()}}`,
    ])
    return drawn
  }
  expect(await draw()).not.toEqual(await draw())
})

test('an address with a history is not imported', async () => {
  const [fresh = '', used = ''] = await newWallets(2)
  await usdc.send(used, 1n)
  expect(await house.importAddresses([fresh, used])).toEqual({
    ok: true,
    imported: 1,
    skipped: [used],
    retired: 0,
    free: 1,
  })
})

test('an address that was used after its import is passed over for good', async () => {
  const [fresh = '', used = ''] = await newWallets(2)
  await house.importAddresses([fresh, used])
  await usdc.send(used, 1n)
  const organizationId = await house.customer()
  // The used one may be drawn before it or not.
  expect((await house.create(organizationId, 500)).address).toBe(fresh)
  expect(await refusalOf(house.create(organizationId, 500))).toBe('payment-source-unavailable')
  expect(await free()).toBe(0)
})

test('an address about which nodes disagree is passed over for some minutes', async () => {
  const wallets = await newWallets(1)
  await house.importAddresses(wallets)
  const organizationId = await house.customer()
  const [, other] = nodes
  if (other !== undefined)
    other.falsify = ({ method }, result) =>
      method === 'getSignaturesForAddress' ? [{ signature: '2'.repeat(88), slot: 1, err: null }] : result
  expect(await refusalOf(house.create(organizationId, 500))).toBe('payment-source-unavailable')
  if (other !== undefined) other.falsify = (_, result) => result
  expect(await refusalOf(house.create(organizationId, 500))).toBe('payment-source-unavailable')
  await house.clock.turn(6 * MINUTE_MS)
  expect((await house.create(organizationId, 500)).address).toBe(wallets[0] ?? '')
})

test('with the nodes away no deposit begins, no address is lost, and nothing is imported', async () => {
  await house.importAddresses(await newWallets(2))
  for (const node of nodes) node.isUp = false
  const organizationId = await house.customer()
  expect(await refusalOf(house.create(organizationId, 500))).toBe('payment-source-unavailable')
  await expect(house.importAddresses(await newWallets(2))).rejects.toMatchObject({ trouble: 'away' })
  for (const node of nodes) node.isUp = true
  expect(await free()).toBe(2)
  for (const cents of [500, 600]) await house.create(organizationId, cents)
})

test('a deposit that is refused gives its address back', async () => {
  const [address = ''] = await newWallets(1)
  await house.importAddresses([address])
  expect(await refusalOf(house.create('01993f8e-5c7b-7e0b-8a35-c1f2d3e4a5b6', 500))).toBe('not-found')
  expect((await house.create(await house.customer(), 500)).address).toBe(address)
})

test('an address that a dead process has reserved is free again minutes later, and the dead process can’t take it', async () => {
  const [address = ''] = await newWallets(1)
  await house.importAddresses([address])
  const pool = createPoolAddresses({ ...house.dependencies() }, 'solana', async () => false)
  const slow = await pool.offer({ organizationId: await house.customer(), placesLeft: 1 })
  expect(await refusalOf(house.create(await house.customer(), 500))).toBe('payment-source-unavailable')
  await house.clock.turn(6 * MINUTE_MS)
  expect((await house.create(await house.customer(), 500)).address).toBe(address)
  expect(await refusalOf(house.database.transaction((tx) => slow.take(tx)))).toBe('payment-source-unavailable')
})

test('a burst of requests of one organization keeps no more addresses than it may have deposits open', async () => {
  await house.importAddresses(await newWallets(4))
  const [organizationId, other] = [await house.customer(), await house.customer()]
  const asked: (() => void)[] = []
  const pool = createPoolAddresses(
    house.dependencies(),
    'solana',
    () => new Promise((resolve) => asked.push(() => resolve(false))),
  )
  const burst = Array.from({ length: 20 }, () => refusalOf(pool.offer({ organizationId, placesLeft: 2 })))
  const others = [refusalOf(pool.offer({ organizationId: other, placesLeft: 2 }))]
  for (let turns = 0; asked.length < 3; turns += 1) {
    if (turns > 10_000) throw new Error('the other organization was offered no address')
    await free()
  }
  for (const answer of asked) answer()
  const refused = (await Promise.all(burst)).filter((code) => code !== null)
  expect(refused).toEqual(Array.from({ length: 18 }, () => 'rate_limited'))
  expect(await Promise.all(others)).toEqual([null])
  expect(asked).toHaveLength(3)
})

test('a list with a known address is refused whole: an address of the pool, one that was given out, one that was retired', async () => {
  const [given = '', retired = '', pooled = '', fresh = ''] = await newWallets(4)
  await house.importAddresses([given])
  await house.create(await house.customer(), 500)
  await house.importAddresses([retired])
  expect(await house.importAddresses([pooled], true)).toMatchObject({ ok: true, retired: 1, free: 1 })
  for (const known of [given, retired, pooled]) {
    expect(await house.importAddresses([fresh, known])).toEqual({
      ok: false,
      problems: ['line 2 has an address that was imported before: remove it'],
    })
  }
  expect(await free()).toBe(1)
})

test('two imports of the same addresses at once bring each of them once', async () => {
  const wallets = await newWallets(5)
  const results = await Promise.all([house.importAddresses(wallets), house.importAddresses(wallets)])
  expect(results.map(({ ok }) => ok).sort()).toEqual([false, true])
  expect(await free()).toBe(5)
})

test('more than one import takes are refused before any node is asked', async () => {
  const text = Array.from({ length: 10_001 }, (_, index) => `a${index}`)
  const { importAddresses } = await import('./import.ts')
  const { database, clock, random } = house.dependencies()
  const hasHistory = () => Promise.reject(new Error('a node was asked'))
  const dependencies = { database, clock, random, faultOf: () => null, hasHistory }
  expect(await importAddresses(dependencies, 'solana', { text: text.join('\n'), replaces: false })).toEqual({
    ok: false,
    problems: ['the file has more than 10000 addresses: split it'],
  })
})

test('a pool that runs short is logged once, one that is empty once more, and the gauge has its figure', async () => {
  const lines: string[] = []
  const log = createLog('debug', { write: (line) => void lines.push(line) })
  const { gauge, refresh } = createPoolGauge(house.database, [{ chain: 'solana', warnBelow: 2 }], log)
  await house.importAddresses(await newWallets(2))
  await refresh()
  expect(lines).toEqual([])
  for (const expected of ['running short', 'no free address']) {
    await house.create(await house.customer(), 500)
    await refresh()
    await refresh()
    expect(lines.splice(0)).toEqual([expect.stringContaining(expected)])
  }
  expect([...gauge.readEach()]).toEqual([[{ chain: 'solana' }, 0]])
})
