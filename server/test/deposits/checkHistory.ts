/** The rules that a history of deposits must keep. */

import { findDeposit } from '../../src/payments/deposits/deposit/find.ts'
import { stateOf } from '../../src/payments/deposits/transfers/transfer.ts'
import type { History } from './depositHistory.ts'

const MICROCENTS_PER_UNIT = 100n
const MICROCENTS_PER_CENT = 1_000_000n
/** A transfer of less is not credited by itself. */
const LEAST_MICROCENTS = 100n * MICROCENTS_PER_CENT

/**
 * Returns the credit that the chain's transfers ask for: those in final blocks, of a deposit and its token, by their
 * sources.
 */
function owed({ chain, deposits }: History): Map<string, { readonly microcents: bigint; readonly depositId: string }> {
  const owedBySource = new Map<string, { readonly microcents: bigint; readonly depositId: string }>()
  for (const { transactionHash, ordinal, address, asset, units } of chain.final()) {
    const deposit = deposits.find((each) => each.address === address)
    if (deposit === undefined || asset !== deposit.asset) continue
    const source = `deposit:${chain.name}:${transactionHash}:${ordinal}`
    owedBySource.set(source, { microcents: units * MICROCENTS_PER_UNIT, depositId: deposit.id })
  }
  return owedBySource
}

async function credits({ database, organizationId }: History): Promise<{ source: string; amount: bigint }[]> {
  return database.query(
    `select source, amount_microcents as amount from ledger_entries where organization_id = $1::uuid order by source`,
    [organizationId],
  )
}

/** At any time: each credit is of a final transfer, of its whole amount, once, and of none that was rejected; the balance is their sum. */
export async function checkAlways(history: History): Promise<string[]> {
  const due = owed(history)
  const posted = await credits(history)
  const problems = posted.flatMap(({ source, amount }) => {
    const expected = due.get(source)
    if (expected === undefined) return [`${source} is credited and not final`]
    if (history.rejected.has(source)) return [`${source} is credited and was rejected`]
    return expected.microcents === amount ? [] : [`${source} is credited with ${amount}, not ${expected.microcents}`]
  })
  const sources = new Set(posted.map(({ source }) => source))
  if (sources.size < posted.length) problems.push('a source is credited twice')
  const balances = await history.database.query<{ balance: bigint }>(
    'select balance_microcents as balance from accounts where organization_id = $1::uuid',
    [history.organizationId],
  )
  const sum = posted.reduce((total, { amount }) => total + amount, 0n)
  if ((balances[0]?.balance ?? 0n) !== sum) problems.push(`the balance is ${balances[0]?.balance}, not ${sum}`)
  return [...problems, ...(await checkPool(history))]
}

/** An address of the pool is given out when a deposit has it, to that one alone, and never after something was sent to it. */
async function checkPool({ database, chain, misgiven }: History): Promise<string[]> {
  if (!chain.isFinalOnly) return []
  const rows = await database.query<{ address: string; state: string | null; deposits: bigint }>(
    `select coalesce(p.address, d.address) as address, p.state, count(d.id) as deposits
     from deposit_pool p full join deposits d on d.address = p.address
     where coalesce(p.chain, d.chain) = $1 group by 1, 2`,
    [chain.name],
  )
  return rows.flatMap(({ address, state, deposits }) => {
    if (misgiven.has(address)) return [`${address} has a history and was given out`]
    if (deposits !== (state === 'given' ? 1n : 0n)) return [`${address} is ${state} and has ${deposits} deposits`]
    return []
  })
}

/** When all has come to rest: each final transfer is credited or was rejected, and each deposit says what became of it. */
export async function checkEnd(history: History): Promise<string[]> {
  const problems = await checkAlways(history)
  const due = owed(history)
  const sources = new Set((await credits(history)).map(({ source }) => source))
  for (const [source, { microcents }] of due) {
    const isSmall = microcents < LEAST_MICROCENTS
    if (!sources.has(source) && !history.rejected.has(source) && !isSmall)
      problems.push(`${source} is final and not credited`)
  }
  for (const { id } of history.deposits) {
    const deposit = await findDeposit(history.database, null, id)
    if (deposit === null) return [...problems, `the deposit ${id} is gone`]
    const own = [...due].filter(([, { depositId }]) => depositId === id)
    const credited = own.filter(([source]) => sources.has(source))
    const creditedMicrocents = credited.reduce((sum, [, { microcents }]) => sum + microcents, 0n)
    if (deposit.creditedMicrocents !== creditedMicrocents)
      problems.push(`${id} says ${deposit.creditedMicrocents}, and ${creditedMicrocents} was credited`)
    const small = own.filter(([source]) => !sources.has(source) && !history.rejected.has(source))
    const smallMicrocents = small.reduce((sum, [, { microcents }]) => sum + microcents, 0n)
    if (smallMicrocents >= LEAST_MICROCENTS) problems.push(`${id} has ${smallMicrocents} in small transfers`)
    const isWhole = own.length === credited.length + small.length
    const asked = BigInt(deposit.amountCents) * MICROCENTS_PER_CENT
    if (isWhole && creditedMicrocents < asked && creditedMicrocents + smallMicrocents >= asked)
      problems.push(`${id} would be paid with its small transfers`)
    const rejected = own.length - credited.length - small.length
    const sums = {
      counts: {
        ...(credited.length > 0 ? { credited: credited.length } : {}),
        ...(rejected > 0 ? { rejected } : {}),
      },
      creditedUnits: creditedMicrocents / MICROCENTS_PER_UNIT,
      isLate: false,
      txHash: null,
    }
    const { status } = stateOf(deposit, sums, history.clock.now())
    const isSame = deposit.status === status || (status === 'expired' && deposit.status === 'failed')
    if (!isSame) problems.push(`${id} is ${deposit.status}, not ${status}`)
  }
  return problems
}
