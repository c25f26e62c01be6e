/** Seeded races of two processes on one account, and what must be true of the books during and after them. */

import { expect } from 'bun:test'
import { readBalance } from '../src/billing/admission/balance/balance.ts'
import { foldSlot } from '../src/billing/admission/slots/foldSlot.ts'
import { findImbalances } from '../src/billing/charges/store.ts'
import type { Database } from '../src/infra/postgres/database.ts'
import { admitCall } from './admitCall.ts'
import { type Seeded, seeded } from './faults/seeded.ts'
import { type FastClock, type Fault, type House, openTill, type Till, withFaults } from './moneyHouse.ts'
import { settleCall } from './settleCall.ts'

/** A token costs a micro-cent. */
const PRICE = { inputMicrocents: 1_000_000n, outputMicrocents: 0n, cachedInputMicrocents: null }
const KEY = '00000000-0000-4000-8000-000000000001'
const ROUNDS = 6
const CALLS_A_ROUND = 15

interface Tally {
  admitted: number
  refused: number
  unavailable: number
  spentMicrocents: bigint
}

/** One call: its price is 1 micro-cent a token, so that its cost is any number of them. Costs at most what it holds. */
async function call(till: Till, organizationId: string, random: Seeded, tally: Tally): Promise<void> {
  const whole = BigInt(random.between(1, 60))
  const first = 1n + whole / 3n
  const admitted = await admitCall(
    till,
    { organizationId, keyId: KEY, model: 'svc/test', tier: 'serverless', priceHash: new Uint8Array(32) },
    { wholeMicrocents: whole, firstStepMicrocents: first },
  )
  if (!admitted.ok) {
    if (admitted.refusal.code === 'insufficient_balance') tally.refused += 1
    else tally.unavailable += 1
    return
  }
  tally.admitted += 1
  const { hold } = admitted.value
  for (let wait = random.between(0, 2); wait > 0; wait -= 1) await new Promise((resolve) => setImmediate(resolve))
  if (random.percent(20)) return hold.release()
  const promptTokens = random.between(0, Number(hold.microcents))
  const cost = await settleCall(till, admitted.value, PRICE, {
    usage: { promptTokens, cachedPromptTokens: 0, completionTokens: 0 },
    estimated: false,
    target: 'mock/test',
    outcome: 'completed',
  })
  tally.spentMicrocents += cost ?? 0n
}

/** At any instant, not only at rest: one statement sees one state of the books. */
export async function checkBooks(database: Database): Promise<void> {
  expect(await findImbalances(database)).toEqual([])
  const over = await database.query('select * from accounts where shares_microcents > greatest(balance_microcents, 0)')
  expect(over).toEqual([])
}

function faultsOf(random: Seeded, percent: number): () => Fault {
  return () => (random.percent(percent) ? random.pick(['before', 'after']) : 'none')
}

/**
 * Six rounds of calls from both processes, each ending at rest, with credit granted in two of them; by the seed with a
 * database that fails three times in ten, or with a slot that is folded between two rounds, as after a lost connection.
 */
export async function race(house: House, clock: FastClock, seed: number): Promise<void> {
  const random = seeded(seed)
  const tally: Tally = { admitted: 0, refused: 0, unavailable: 0, spentMicrocents: 0n }
  let credit = BigInt(random.between(0, 6_000))
  const organization = await house.organization(credit)
  const other = await house.organization(100n)
  const faults = faultsOf(random, seed % 2 === 0 ? 0 : 30)
  const tills = [0, 1].map((slot) => openTill(withFaults(house.database, faults), slot, clock))
  for (let round = 0; round < ROUNDS; round += 1) {
    const work = tills.flatMap((till) =>
      Array.from({ length: CALLS_A_ROUND }, () => call(till, random.percent(90) ? organization : other, random, tally)),
    )
    if (round === 2 || round === 4) {
      const more = BigInt(round * 150)
      credit += more
      work.push(house.grant(organization, more))
    }
    work.push(checkBooks(house.database), checkBooks(house.database))
    await Promise.all(work)
    await checkBooks(house.database)
    if (seed % 3 === 0 && round === 3) {
      await house.database.transaction((tx) => foldSlot(tx, 1, clock.now()))
      tills[1]?.forgetShares()
    }
  }
  const [here, there] = await Promise.all([house.spent(organization), house.spent(other)])
  expect(here.microcents + there.microcents).toBe(tally.spentMicrocents)
  expect(here.microcents).toBeLessThanOrEqual(credit)
  expect(there.microcents).toBeLessThanOrEqual(100n)
  expect(await readBalance(house.database, organization)).toBe(credit - here.microcents)
  for (const [slot, till] of tills.entries()) await checkShares(house.database, till, slot)
  expect(tally.admitted).toBeGreaterThan(0)
}

/** At rest nothing is held, and a process believes at most what the account says. */
async function checkShares(database: Database, till: Till, slot: number): Promise<void> {
  for (const share of till.shares.values()) {
    expect([share.heldMicrocents, share.unpostedMicrocents]).toEqual([0n, 0n])
    const rows = await database.query<{ left: bigint }>(
      `select granted_microcents - coalesce((select sum(spent_microcents) from unfolded_spend s
         where s.organization_id = l.organization_id and s.slot = l.slot), 0)::bigint as left from account_shares l
       where organization_id = $1::uuid and slot = $2::integer`,
      [share.organizationId, slot],
    )
    expect(share.spendableMicrocents).toBeLessThanOrEqual(rows[0]?.left ?? 0n)
  }
}
