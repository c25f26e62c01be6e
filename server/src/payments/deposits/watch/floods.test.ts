/** Floods of tiny transfers, of fake tokens and of deposits, and looks that fail in part: what counts is credited all the same. */

import { afterEach, beforeEach, expect, test } from 'bun:test'
import { type DepositHouse, openDepositHouse } from '../../../../test/deposits/depositHouse.ts'
import { FakeChain } from '../../../../test/deposits/fakeChain.ts'
import { DAY_MS } from '../../../lib/time.ts'
import { ChainFailure, type ChainReader } from '../chains/chain.ts'
import { listTransfers } from '../operator/list.ts'
import { planSweep } from '../operator/sweepPlan.ts'
import { claimTransfers } from '../transfers/decide.ts'
import { rescanChain } from './rescan.ts'

const DOLLAR = 1_000_000n

let chain: FakeChain
let house: DepositHouse
beforeEach(async () => {
  chain = new FakeChain('base')
  house = await openDepositHouse({ chain: 'base', nodes: [], tokens: chain.tokens, reader: chain })
  await house.look()
})
afterEach(() => house.close())

function settle(): Promise<void> {
  chain.mine()
  chain.finalize()
  return house.look()
}

const statusOf = async (id: string) => (await house.find(id)).status

async function statesOf(id: string): Promise<string[]> {
  return (await listTransfers(house.database, id)).transfers.map(({ state }) => state)
}

/** The chain, with some answers of its own. */
function readerWith(over: Partial<ChainReader>): ChainReader {
  return Object.assign(Object.create(chain), over) as ChainReader
}

test('a transfer of less than the least amount is kept, and neither shown, screened nor credited', async () => {
  const organizationId = await house.customer()
  const { id, address } = await house.create(organizationId, 500)
  chain.pay(address, 999_999n)
  chain.mine()
  await house.look()
  expect(await statesOf(id)).toEqual([])
  await settle()
  expect(await statesOf(id)).toEqual(['small'])
  expect(await statusOf(id)).toBe('created')
  expect(await house.credits(organizationId)).toEqual([])
})

test('small transfers are credited, each by itself, once together they reach the least amount', async () => {
  const organizationId = await house.customer()
  const { id, address } = await house.create(organizationId, 500)
  chain.pay(address, 600_000n)
  await settle()
  chain.pay(address, 400_000n)
  await settle()
  expect((await house.credits(organizationId)).sort()).toEqual([40_000_000n, 60_000_000n])
  expect(await statusOf(id)).toBe('credited_underpaid')
})

test('a small transfer is credited where it makes up what was asked for, before the rest or after it', async () => {
  for (const parts of [
    [5n * DOLLAR - 300_000n, 300_000n],
    [300_000n, 5n * DOLLAR - 300_000n],
  ]) {
    const { id, address } = await house.create(await house.customer(), 500)
    for (const units of parts) {
      chain.pay(address, units)
      await settle()
    }
    expect(await statusOf(id)).toBe('credited')
  }
})

test('of a flood of dust a bounded number is kept, and a payment beside it is credited', async () => {
  const organizationId = await house.customer()
  const { id, address } = await house.create(organizationId, 500)
  chain.pay(address, ...Array.from({ length: 1_500 }, () => 1n))
  chain.pay(address, 5n * DOLLAR)
  await settle()
  expect(await house.credits(organizationId)).toEqual([500_000_000n])
  const rows = await house.database.query<{ count: bigint }>(
    `select count(*) as count from deposit_transfers where deposit_id = $1::uuid and state = 'small'`,
    [id],
  )
  expect(rows).toEqual([{ count: 1_000n }])
})

test('of transfers that are not final the largest are shown, and of those that are taken back few are kept, for a week', async () => {
  const { id, address } = await house.create(await house.customer(), 500)
  for (let turn = 0; turn < 3; turn += 1) {
    chain.pay(address, ...Array.from({ length: 50 }, (_, index) => BigInt(index + 2) * DOLLAR))
    chain.mine()
    await house.look()
    expect((await statesOf(id)).filter((state) => state === 'detected')).toHaveLength(20)
    chain.reorganize(1, () => true)
    await house.look()
  }
  expect(await statesOf(id)).toEqual(Array.from({ length: 20 }, () => 'dropped'))
  await house.clock.turn(2 * DAY_MS)
  await house.look()
  expect(await statusOf(id)).toBe('failed')
  await house.clock.turn(6 * DAY_MS)
  await house.look()
  expect(await statesOf(id)).toEqual([])
})

test('an unchanged transfer in a block that is not final is not written again', async () => {
  const { id, address } = await house.create(await house.customer(), 500)
  chain.pay(address, 5n * DOLLAR)
  chain.mine()
  chain.mine()
  const version = async () => {
    await house.look()
    return house.database.query<{ xmin: string }>(
      'select xmin::text as xmin from deposit_transfers where deposit_id = $1::uuid',
      [id],
    )
  }
  expect(await version()).toEqual(await version())
})

test('organizations are screened in turn: a flood of one does not hold up another', async () => {
  const { address } = await house.create(await house.customer(), 500)
  chain.pay(address, ...Array.from({ length: 100 }, () => 2n * DOLLAR))
  chain.mine()
  chain.finalize()
  await house.watch()
  await house.clock.turn(1_000)
  const other = await house.create(await house.customer(), 500)
  chain.pay(other.address, 5n * DOLLAR)
  chain.mine()
  chain.finalize()
  await house.watch()
  const claimed: string[] = []
  for (let turn = 0; turn < 3; turn += 1) {
    const taken = await claimTransfers(house.dependencies(), house.clock.now() + 60_000, 1)
    claimed.push(...taken.map(({ depositId }) => depositId))
  }
  expect(claimed).toHaveLength(3)
  expect(claimed.slice(0, 2)).toContain(other.id)
})

test('a fake token can not take the place of a payment', async () => {
  const organizationId = await house.customer()
  const { id, address } = await house.create(organizationId, 500)
  const hash = chain.pay(address, 5n * DOLLAR)
  const before = chain.headNumber
  chain.mine()
  chain.finalize()
  const [payment] = chain.final().filter(({ transactionHash }) => transactionHash === hash)
  if (payment === undefined) throw new Error('the payment is not in a block')
  const fake = { ...payment, token: `0x${'fa'.repeat(20)}`, asset: null, units: 1n }
  const reader = readerWith({ otherTransfers: async () => [fake] })
  await house.watch(reader)
  await rescanChain(house.database, 'base', before, house.clock.now())
  await house.watch(reader)
  await house.screen()
  expect(await house.credits(organizationId)).toEqual([500_000_000n])
  expect((await statesOf(id)).sort()).toEqual(['credited', 'wrong_token'])
})

test('no number of worthless tokens hides a token that is taken, but was not asked for', async () => {
  const { id, address } = await house.create(await house.customer(), 500)
  const finish = async () => {
    chain.mine()
    chain.finalize()
    await house.look()
  }
  for (let time = 0; time < 21; time += 1) chain.pay(address, { units: 1n, asset: null })
  await finish()
  chain.pay(address, { units: 5n * DOLLAR, asset: 'usdt' })
  await finish()
  const { transfers } = await listTransfers(house.database, id)
  expect(transfers.map(({ units }) => units)).toEqual([5n * DOLLAR, ...Array.from({ length: 20 }, () => 1n)])
})

test('a search for wrong tokens that fails holds nothing up', async () => {
  const { id, address } = await house.create(await house.customer(), 500)
  chain.pay(address, 5n * DOLLAR)
  chain.mine()
  chain.finalize()
  await house.watch(readerWith({ otherTransfers: () => Promise.reject(new ChainFailure('too_large', 'too large')) }))
  await house.screen()
  expect(await statusOf(id)).toBe('credited')
})

test.each<[string, Partial<ChainReader>]>([
  ['the head can’t be read', { headBlock: () => Promise.reject(new ChainFailure('away', 'away')) }],
  ['the head is said to be far away', { headBlock: async () => Number.MAX_SAFE_INTEGER }],
  ['new transfers can’t be read', { newTransfers: () => Promise.reject(new ChainFailure('malformed', 'no')) }],
])('where %s, what is final is credited all the same', async (_, over) => {
  const { id, address } = await house.create(await house.customer(), 500)
  chain.pay(address, 5n * DOLLAR)
  chain.mine()
  chain.finalize()
  const finalBlock = chain.headNumber
  chain.mine()
  const { newFailure, headBlock } = await house.watch(readerWith(over))
  expect(newFailure).toBeInstanceOf(ChainFailure)
  expect(headBlock).toBe(finalBlock)
  await house.screen()
  expect(await statusOf(id)).toBe('credited')
})

test('a range with too many transfers is read in shorter ones', async () => {
  const { id, address } = await house.create(await house.customer(), 500)
  for (let blocks = 0; blocks < 10; blocks += 1) chain.mine()
  chain.pay(address, 5n * DOLLAR)
  chain.mine()
  chain.finalize()
  const asked: number[] = []
  const reader = readerWith({
    finalTransfers(addresses, range) {
      asked.push(range.to - range.from + 1)
      if (range.to - range.from > 3) throw new ChainFailure('too_many', 'too many')
      return chain.finalTransfers(addresses, range)
    },
  })
  expect((await house.watch(reader)).isBehind).toBe(false)
  await house.screen()
  expect(await statusOf(id)).toBe('credited')
  expect(asked[0]).toBeGreaterThan(4)
})

test('a look goes on with the step that the last one has found, and takes longer ones again when it can', async () => {
  for (let blocks = 0; blocks < 40; blocks += 1) chain.mine()
  chain.finalize()
  await house.create(await house.customer(), 500)
  const asked: number[] = []
  let most = 2
  const reader = readerWith({
    finalTransfers(addresses, range) {
      asked.push(range.to - range.from + 1)
      if (range.to - range.from + 1 > most) throw new ChainFailure('too_many', 'too many')
      return chain.finalTransfers(addresses, range)
    },
  })
  const first = await house.watch(reader)
  expect(first).toMatchObject({ isBehind: false })
  expect(first.shortened).toBeGreaterThan(0)
  for (let blocks = 0; blocks < 40; blocks += 1) chain.mine()
  chain.finalize()
  asked.length = 0
  most = 1_000
  expect(await house.watch(reader)).toMatchObject({ isBehind: false, shortened: 0 })
  expect(asked[0]).toBeLessThanOrEqual(4)
  expect(Math.max(...asked)).toBeGreaterThan(4)
})

test('a look that has blocks to settle and settles none has failed', async () => {
  for (let blocks = 0; blocks < 40; blocks += 1) chain.mine()
  chain.finalize()
  await house.create(await house.customer(), 500)
  const reader = readerWith({
    async finalTransfers(addresses, range) {
      // Each question takes so long that the look is over before its range is short enough.
      await house.clock.turn(61_000)
      if (range.to - range.from > 3) throw new ChainFailure('too_many', 'too many')
      return chain.finalTransfers(addresses, range)
    },
  })
  const endings: string[] = []
  for (let looks = 0; looks < 6; looks += 1)
    endings.push(
      await house.watch(reader).then(
        () => 'settled',
        ({ trouble }: ChainFailure) => trouble,
      ),
    )
  // Each look begins where the last one was: none is lost.
  expect(endings.slice(0, 4)).toEqual(['too_many', 'too_many', 'too_many', 'too_many'])
  expect(endings.slice(4)).toEqual(['settled', 'settled'])
})

test('transfers before the range are not too many, and small ones that are told again count once', async () => {
  const { id, address } = await house.create(await house.customer(), 500)
  chain.pay(address, ...Array.from({ length: 600 }, () => 1n))
  await settle()
  chain.pay(address, ...Array.from({ length: 300 }, () => 1n))
  for (let blocks = 0; blocks < 3; blocks += 1) chain.mine()
  chain.finalize()
  const asked: number[] = []
  const reader = readerWith({
    finalTransfers(_, range) {
      asked.push(range.to - range.from + 1)
      const [first] = chain.final()
      if (first === undefined) throw new Error('nothing was paid')
      const elsewhere = { ...first, address: 'elsewhere' }
      return Promise.resolve([...chain.final(), ...Array.from({ length: 10_001 }, () => elsewhere)])
    },
  })
  await house.watch(reader)
  expect(asked).toEqual([3])
  const rows = await house.database.query<{ count: bigint }>(
    'select count(*) as count from deposit_transfers where deposit_id = $1::uuid',
    [id],
  )
  expect(rows).toEqual([{ count: 900n }])
})

test('a rescan from the first block reads everything again, and skips nothing', async () => {
  const { id, address } = await house.create(await house.customer(), 500)
  chain.pay(address, 5n * DOLLAR)
  chain.mine()
  chain.finalize()
  expect(await rescanChain(house.database, 'base', 0, house.clock.now())).toBe(-1)
  await house.look()
  expect(await statusOf(id)).toBe('credited')
})

test('dust frees no place for another deposit, and a deposit that is paid does', async () => {
  const organizationId = await house.customer()
  const deposits = await Promise.all(Array.from({ length: 10 }, () => house.create(organizationId, 500)))
  const [first, ...others] = deposits
  for (const { address } of others) chain.pay(address, 1n)
  await settle()
  await expect(house.create(organizationId, 500)).rejects.toThrow('10 open deposits')
  chain.pay(first?.address ?? '', 5n * DOLLAR)
  await settle()
  await house.create(organizationId, 500)
})

test('an organization begins so many deposits a day, paid or not', async () => {
  const organizationId = await house.customer()
  for (let made = 0; made < 100; made += 1) {
    const { address } = await house.create(organizationId, 500)
    chain.pay(address, 5n * DOLLAR)
    if (made % 9 === 8) await settle()
  }
  await settle()
  await expect(house.create(organizationId, 500)).rejects.toThrow('100 deposits within 24 hours')
  await house.clock.turn(DAY_MS)
  await house.create(organizationId, 500)
})

test('a sweep plan is made although a fake token tells no balance, and says what it lacks of own tokens', async () => {
  const organizationId = await house.customer()
  const [one, other] = [await house.create(organizationId, 500), await house.create(organizationId, 500)]
  chain.pay(one.address, 5n * DOLLAR, { units: 1n, asset: null })
  chain.pay(other.address, 6n * DOLLAR)
  await settle()
  const own = chain.tokens.usdc
  const refused = new ChainFailure('refused', 'a node refused')
  const planOf = (balanceOf: ChainReader['balanceOf']) =>
    planSweep(house.database, new Map([['base', { balanceOf }] as const]), (_, address) => address)
  const plan = await planOf((token, address) =>
    token === own ? chain.balanceOf(token, address) : Promise.reject(refused),
  )
  expect(plan.rows.map(({ asset, units }) => [asset, units]).sort()).toEqual([
    ['', ''],
    ['usdc', '5000000'],
    ['usdc', '6000000'],
  ])
  expect(plan.missing).toBe(0)
  const part = await planOf((token, address) =>
    address === one.address ? Promise.reject(refused) : chain.balanceOf(token, address),
  )
  expect(part).toMatchObject({ missing: 1, failures: ['a node refused'] })
  expect(part.rows).toContainEqual(expect.objectContaining({ address: other.address, units: '6000000' }))
  const unknown = await planSweep(house.database, new Map(), (_, address) => address)
  expect(unknown).toMatchObject({ missing: 2, failures: ['the settings have no node of base'] })
})
