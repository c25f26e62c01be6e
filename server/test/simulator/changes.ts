/** The acts of operators and admins on accounts while calls run: through the same verbs as the commands. */

import { setLimit } from '../../src/billing/admission/accounts/limit.ts'
import { refundCharge } from '../../src/billing/charges/refund.ts'
import { adjustBalance } from '../../src/billing/ledger/adjust.ts'
import { grantCredit } from '../../src/billing/ledger/grantCredit.ts'
import type { Database } from '../../src/infra/postgres/database.ts'
import type { RandomBytes } from '../../src/lib/ids.ts'
import type { Machine } from './machine.ts'
import type { World } from './world.ts'

export interface ChangeOptions {
  readonly world: World
  /** The machine of the commands: it is neither killed nor stopped. */
  readonly machine: Machine
  readonly database: Database
  readonly random: RandomBytes
  readonly organizationId: string
  readonly usualMicrocents: bigint
  /** True when limits mostly stop running calls, and are lowered under them. */
  readonly stopsRunning: boolean
  /** The id of some charge that was posted; null: there is none yet. */
  readonly chargeId: string | null
}

const KINDS = ['credit', 'debit', 'limit', 'refund', 'lower'] as const
/** Of balances and limits that are enough for many calls: what takes away, and what gives so much that calls go on. */
const STOPPING = ['lower', 'lower', 'debit', 'debit', 'limit', 'limit', 'credit'] as const

/** Changes something; tries again, as an operator does, when the database did not answer. */
export async function changeSomething(options: ChangeOptions): Promise<void> {
  const { world, machine, database, random, organizationId, usualMicrocents, stopsRunning, chargeId } = options
  const amount = (usualMicrocents * BigInt(world.random.between(1, 60))) / 10n
  const source = `change:${world.steps}`
  const atMs = machine.clock.now()
  const kind = world.random.pick(stopsRunning ? STOPPING : KINDS)
  const enforcement =
    stopsRunning && world.random.percent(70)
      ? 'stop_running'
      : world.random.pick(['stop_running', 'block_launch', 'notify_only'] as const)
  world.note(`${kind} ${amount} of ${organizationId}`)
  const perform = async (): Promise<unknown> => {
    if (kind === 'credit') {
      const isPayment = false
      return await database.transaction((tx) =>
        grantCredit(tx, random, {
          organizationId,
          amountMicrocents: amount,
          source,
          note: null,
          isPayment,
          atMs,
        }),
      )
    }
    if (kind === 'debit') {
      return await adjustBalance(database, random, {
        organizationId,
        amountMicrocents: stopsRunning ? -3n * amount : -amount,
        source,
        note: 'test',
        atMs,
      })
    }
    if (kind === 'refund') {
      return chargeId === null
        ? null
        : await refundCharge(database, random, { chargeId, amountMicrocents: null, note: null, atMs })
    }
    return await setLimit(database, organizationId, {
      monthlyMicrocents: kind === 'lower' ? amount : amount * 4n,
      dailyMicrocents: kind === 'lower' ? amount / 2n : 0n,
      enforcement,
      autoTerminateHours: undefined,
    })
  }
  for (let tries = 0; tries < 20; tries += 1) {
    const isDone = await perform().then(
      () => true,
      () => false,
    )
    if (isDone) return
    await new Promise<void>((resolve) => machine.clock.after(500, resolve))
  }
}
