/** The payers of a run: their credit, their keys, and the credit that two of them get as it goes on. */

import { grantCredit } from '../../src/billing/ledger/grantCredit.ts'
import type { Database } from '../../src/infra/postgres/database.ts'
import { systemRandom } from '../../src/infra/random.ts'
import { MICROCENTS_PER_CENT } from '../../src/lib/money.ts'
import { makeCustomer, makeKey, type TestKey } from '../customer.ts'
import { PAYERS, type Payer } from './plan.ts'

type KeysByPayer = Record<Payer, readonly TestKey[]>

export interface House {
  readonly keys: KeysByPayer
  readonly aloneKeys: KeysByPayer
  /** Of the organization with a daily limit. */
  readonly admin: TestKey
  /** Micro-cents by organization. */
  readonly granted: Map<string, bigint>
  /** As it was last set; it only ever rises. */
  dailyLimitCents: number
}

/** Credit: enough for any run, but for the one who is to run out. */
const CREDIT_CENTS: Readonly<Record<Payer, number>> = {
  first: 1_000_000_000,
  second: 1_000_000_000,
  third: 1_000_000_000,
  poor: 20,
  capped: 1_000_000_000,
}
const FIRST_LIMIT_CENTS = 100
/** A little less than all of those who have little ask for, so that they are at their end again and again. */
const MORE_LIMIT_CENTS = 4
const MORE_LIMIT_INTERVAL_MS = 1_000
const POCKET_MICROCENTS = 150_000n
const POCKET_INTERVAL_MS = 100
const KEYS_EACH = 6
/** As many as calls are open at once, and some that rest. */
const ALONE_KEYS_EACH = 80

export async function furnish(database: Database, url: string): Promise<House> {
  const keys: Partial<KeysByPayer> = {}
  const aloneKeys: Partial<KeysByPayer> = {}
  const granted = new Map<string, bigint>()
  let admin: TestKey | undefined
  for (const payer of PAYERS) {
    const first = await makeCustomer(database, { cents: CREDIT_CENTS[payer], admin: true })
    granted.set(first.organizationId, BigInt(CREDIT_CENTS[payer]) * MICROCENTS_PER_CENT)
    if (payer === 'capped') admin = first
    const more = (count: number) =>
      Promise.all(Array.from({ length: count }, () => makeKey(database, first.organizationId)))
    keys[payer] = [first, ...(await more(KEYS_EACH - 1))]
    aloneKeys[payer] = await more(ALONE_KEYS_EACH)
  }
  if (admin === undefined) throw new Error('nobody has a daily limit')
  await setDailyLimit(url, admin, FIRST_LIMIT_CENTS)
  const all = { keys: keys as KeysByPayer, aloneKeys: aloneKeys as KeysByPayer }
  return { ...all, admin, granted, dailyLimitCents: FIRST_LIMIT_CENTS }
}

/** Gives credit to the poor one and a higher limit to the capped one, now and then while `work` goes on. */
export async function withPocketMoney<T>(
  database: Database,
  url: string,
  house: House,
  work: () => Promise<T>,
): Promise<T> {
  let isOver = false
  let wantedCents = house.dailyLimitCents
  const every = async (milliseconds: number, give: (times: number) => Promise<void>) => {
    for (let times = 1; !isOver; times += 1) {
      await give(times)
      await new Promise((resolve) => setTimeout(resolve, milliseconds))
    }
  }
  const giving = Promise.all([
    every(POCKET_INTERVAL_MS, (times) => givePocketMoney(database, house, times)),
    every(MORE_LIMIT_INTERVAL_MS, async () => {
      wantedCents += MORE_LIMIT_CENTS
      if (await setDailyLimit(url, house.admin, wantedCents)) house.dailyLimitCents = wantedCents
    }),
  ])
  try {
    return await work()
  } finally {
    isOver = true
    await giving
  }
}

async function givePocketMoney(database: Database, { keys, granted }: House, times: number): Promise<void> {
  const organizationId = keys.poor[0]?.organizationId ?? ''
  await database.transaction((tx) =>
    grantCredit(tx, systemRandom(), {
      organizationId,
      amountMicrocents: POCKET_MICROCENTS,
      source: `pocket money ${times}`,
      note: null,
      isPayment: false,
      atMs: Date.now(),
    }),
  )
  granted.set(organizationId, (granted.get(organizationId) ?? 0n) + POCKET_MICROCENTS)
}

/** Returns false where the organization has made all the changes that it may for now (K7). */
async function setDailyLimit(url: string, { key }: TestKey, cents: number): Promise<boolean> {
  const response = await fetch(`${url}/billing/spending-limit`, {
    method: 'PUT',
    headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({
      monthly_limit_dollars: cents,
      daily_limit_dollars: cents / 100,
      enforcement: 'stop_running',
    }),
  })
  if (!response.ok && response.status !== 429) throw new Error(`the limit was refused: ${await response.text()}`)
  return response.ok
}
