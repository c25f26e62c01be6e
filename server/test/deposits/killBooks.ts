/** Checks the ledger while gateways are killed, by the chain and by the ledger alone. */

import { createPublicClient, http, parseAbiItem } from 'viem'
import { findImbalances } from '../../src/billing/charges/store.ts'
import type { Database } from '../../src/infra/postgres/database.ts'
import type { TestChain } from './anvil.ts'
import type { KilledTokens } from './killedGateways.ts'
import { isRejectedAmount } from './killPlan.ts'

const MICROCENTS_PER_UNIT = 100n
const UNITS_PER_CENT = 10_000n
const TRANSFER = parseAbiItem('event Transfer(address indexed from, address indexed to, uint256 value)')

interface DepositRow {
  readonly id: string
  readonly organization_id: string
  readonly address: string
  readonly asset: 'usdc' | 'usdt'
  readonly amount_cents: bigint
  readonly status: string
}

interface CreditRow {
  readonly organization_id: string
  readonly source: string
  readonly amount: bigint
}

/** A final transfer of a deposit's token to its address. */
interface Owed {
  readonly deposit: DepositRow
  readonly units: bigint
}

/** The rows that are read, to be compared with the chain. */
export interface KillBooks {
  readonly chain: TestChain
  readonly tokens: KilledTokens
  readonly database: Database
}

function readDeposits({ database }: KillBooks): Promise<DepositRow[]> {
  return database.query(
    'select id, organization_id, lower(address) as address, asset, amount_cents, status from deposits',
  )
}

function readCredits({ database }: KillBooks): Promise<CreditRow[]> {
  return database.query(`select organization_id, source, amount_microcents as amount from ledger_entries
     where source like 'deposit:%' order by source`)
}

/** Returns the payments in final blocks by the source that their credit must have. */
async function readOwed({ chain, tokens }: KillBooks, deposits: readonly DepositRow[]): Promise<Map<string, Owed>> {
  const client = createPublicClient({ transport: http(chain.url, { retryCount: 0 }), cacheTime: 0 })
  const { number: toBlock } = await client.getBlock({ blockTag: 'finalized' })
  const byAddress = new Map(deposits.map((deposit) => [deposit.address, deposit]))
  const owed = new Map<string, Owed>()
  for (const asset of ['usdc', 'usdt'] as const) {
    const address = tokens[asset].address as `0x${string}`
    for (const { args, transactionHash, logIndex } of await client.getLogs({
      address,
      event: TRANSFER,
      fromBlock: 0n,
      toBlock,
    })) {
      const deposit = byAddress.get(args.to?.toLowerCase() ?? '')
      if (deposit === undefined || deposit.asset !== asset || args.value === undefined) continue
      const { logs } = await client.getTransactionReceipt({ hash: transactionHash })
      const ordinal = logs.findIndex((each) => each.logIndex === logIndex)
      owed.set(`deposit:ethereum:${transactionHash}:${ordinal}`, { deposit, units: args.value })
    }
  }
  return owed
}

/** At any time: each credit is of a final payment that passed, of its whole amount, to its organization, and once. */
export async function checkCredits(books: KillBooks): Promise<string[]> {
  // In this order: what is credited was final before.
  const credits = await readCredits(books)
  return problemsOf(credits, await readOwed(books, await readDeposits(books)))
}

function problemsOf(credits: readonly CreditRow[], owed: ReadonlyMap<string, Owed>): string[] {
  const problems = credits.flatMap(({ source, amount, organization_id: organizationId }) => {
    const due = owed.get(source)
    if (due === undefined) return [`${source} is credited and not final`]
    if (isRejectedAmount(due.units)) return [`${source} is credited and was rejected`]
    if (due.deposit.organization_id !== organizationId) return [`${source} is credited to another organization`]
    const microcents = due.units * MICROCENTS_PER_UNIT
    return amount === microcents ? [] : [`${source} is credited with ${amount}, not ${microcents}`]
  })
  if (new Set(credits.map(({ source }) => source)).size < credits.length) problems.push('a source is credited twice')
  return problems
}

/** Returns whether nothing is left to settle, to screen or to show. */
export async function isAtRest({ chain, database }: KillBooks): Promise<boolean> {
  const { number } = await chain.ask<{ number: string }>('eth_getBlockByNumber', 'finalized', false)
  const rows = await database.query(
    `select 1 from deposit_chains where settled_block >= $1::bigint and not exists (
       select 1 from deposit_transfers where state not in ('credited', 'rejected', 'dropped'))`,
    [Number(number)],
  )
  return rows.length === 1
}

/** At rest: each final payment that passed is credited, balances are their sums, and each deposit says what became of it. */
export async function checkRest(books: KillBooks): Promise<{ readonly problems: string[]; readonly credits: number }> {
  const deposits = await readDeposits(books)
  const [credits, owed] = [await readCredits(books), await readOwed(books, deposits)]
  const problems = problemsOf(credits, owed)
  const sources = new Set(credits.map(({ source }) => source))
  for (const [source, { units }] of owed)
    if (!sources.has(source) && !isRejectedAmount(units)) problems.push(`${source} is final and not credited`)
  for (const deposit of deposits) {
    const expected = statusOf(
      deposit,
      [...owed.values()].filter((each) => each.deposit.id === deposit.id),
    )
    if (deposit.status !== expected) problems.push(`the deposit ${deposit.id} is ${deposit.status}, not ${expected}`)
  }
  const balances = await books.database.query<{ id: string; balance: bigint }>(
    `select organization_id as id, balance_microcents as balance from accounts
     where organization_id in (select organization_id from deposits)`,
  )
  for (const { id, balance } of balances) {
    const sum = [...owed.values()]
      .filter(({ deposit, units }) => deposit.organization_id === id && !isRejectedAmount(units))
      .reduce((total, { units }) => total + units * MICROCENTS_PER_UNIT, 0n)
    if (balance !== sum) problems.push(`the balance of ${id} is ${balance}, not ${sum}`)
  }
  const imbalances = await findImbalances(books.database)
  if (imbalances.length > 0) problems.push(`${imbalances.length} accounts do not agree with their ledger`)
  return { problems, credits: credits.length }
}

function statusOf({ amount_cents: amountCents }: DepositRow, paid: readonly Owed[]): string {
  const passed = paid.filter(({ units }) => !isRejectedAmount(units))
  if (passed.length === 0) return paid.length === 0 ? 'created' : 'failed_screening'
  const units = passed.reduce((sum, each) => sum + each.units, 0n)
  const asked = amountCents * UNITS_PER_CENT
  if (units === asked) return 'credited'
  return units < asked ? 'credited_underpaid' : 'credited_overpaid'
}
