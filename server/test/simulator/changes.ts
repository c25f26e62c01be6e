/** What operators and admins do to accounts while calls run: through the same verbs as the commands. */

import type { Database } from '../../src/io/postgres/database.ts'
import type { RandomBytes } from '../../src/kernel/ids.ts'
import { setLimit } from '../../src/money/accounts/limit.ts'
import { adjustBalance } from '../../src/money/adjust.ts'
import { grantCredit } from '../../src/money/grantCredit.ts'
import { refundCharge } from '../../src/money/refund.ts'
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
  /** The id of some charge that was posted; null: there is none yet. */
  readonly chargeId: string | null
}

/** Changes something; tries again, as an operator does, when the database did not answer. */
export async function changeSomething(options: ChangeOptions): Promise<void> {
  const { world, machine, database, random, organizationId, usualMicrocents, chargeId } = options
  const amount = (usualMicrocents * BigInt(world.random.between(1, 60))) / 10n
  const source = `change:${world.steps}`
  const atMs = machine.clock.now()
  const kind = world.random.pick(['credit', 'debit', 'limit', 'refund', 'lower'])
  world.note(`${kind} ${amount} of ${organizationId}`)
  const perform = async (): Promise<unknown> => {
    if (kind === 'credit') {
      const isPayment = false
      return await grantCredit(database, random, {
        organizationId,
        amountMicrocents: amount,
        source,
        note: null,
        isPayment,
        atMs,
      })
    }
    if (kind === 'debit') {
      return await adjustBalance(database, random, {
        organizationId,
        amountMicrocents: -amount,
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
  const enforcement = world.random.pick(['stop_running', 'block_launch', 'notify_only'] as const)
  for (let tries = 0; tries < 20; tries += 1) {
    const isDone = await perform().then(
      () => true,
      () => false,
    )
    if (isDone) return
    await new Promise<void>((resolve) => machine.clock.after(500, resolve))
  }
}
