/** One gateway process, put together as `billing/open.ts` does it, with the machine and the database of the simulator. */

import { readFigures } from '../../src/billing/admission/accounts/figures.ts'
import { CHANGE_CHANNEL, RECLAIM_CHANNEL } from '../../src/billing/admission/accounts/reclaim.ts'
import { type OpenMoney, openMoney } from '../../src/billing/admission/openMoney.ts'
import { foldSlot } from '../../src/billing/admission/slots/foldSlot.ts'
import { createReclaimer } from '../../src/billing/admission/slots/reclaimer.ts'
import { listUnfoldedSlots } from '../../src/billing/admission/slots/store.ts'
import { preparePartitions } from '../../src/billing/charges/partitions/prepare.ts'
import type { ChargingMoney } from '../../src/billing/charges/settle.ts'
import { Writer } from '../../src/billing/charges/writer.ts'
import { openPlans } from '../../src/billing/plans/plans.ts'
import { DEFAULT_FIXED_SETTINGS } from '../../src/catalog/settings.ts'
import { openDatabaseClock } from '../../src/infra/databaseClock.ts'
import { readClock } from '../../src/infra/postgres/clock.ts'
import type { Database } from '../../src/infra/postgres/database.ts'
import type { RandomBytes } from '../../src/lib/ids.ts'
import { type Clock, MINUTE_MS } from '../../src/lib/time.ts'
import { claimSlot, type Slot } from '../../src/processes/slot.ts'
import { SILENCE } from '../silence.ts'
import { databaseOf, sessionOf, type Watch } from './connections.ts'
import { type Taken, watchHolds } from './holds.ts'
import type { Machine } from './machine.ts'
import type { Outage } from './outage.ts'
import type { World } from './world.ts'
import { WRITER_ERRORS } from './writerErrors.ts'

export interface Gateway {
  readonly machine: Machine
  /** The database's, where clocks are turned; else the machine's own, which differs a little from those of others. */
  readonly clock: Clock
  /** Why its time can't be relied on; null: it can. */
  readonly trouble: () => string | null
  /** How far its clock was ahead of the true time at its start: its first answer is followed as it is. */
  readonly firstAheadMs: number
  readonly database: Database
  readonly slot: Slot
  readonly money: OpenMoney & ChargingMoney
  readonly writer: Writer
}

export interface GatewayOptions {
  readonly world: World
  readonly machine: Machine
  readonly outage: Outage
  readonly random: RandomBytes
  readonly lowBalanceMicrocents: bigint
  /** True when it asks for the database's clock. */
  readonly followsDatabase: boolean
  /** True when it looks at accounts that refused a call a moment ago. */
  readonly looks: boolean
  readonly watch: Watch
  /** Told of each charge that the writer takes, and how it was held. */
  readonly onTaken: (taken: Taken) => void
  /** Told the number of the slot before the process admits anything. */
  readonly onSlot: (slot: number) => void
  /** It had lost its slot, and has it or another one again. */
  readonly onRegained: () => void
}

/** Starts a process; rejects when it can't get a slot, as its start then fails. */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const { world, machine, outage, random, watch } = options
  const database = databaseOf(world, machine, outage, watch)
  const counted = options.followsDatabase
    ? await openDatabaseClock({ read: () => readClock(database), timers: machine.clock, log: SILENCE })
    : null
  const clock = counted ?? machine.clock
  const firstAheadMs = world.aheadOf(clock.now())
  const trouble = () => counted?.trouble() ?? null
  let onRegained = () => {}
  const slot = await claimSlot({
    database,
    connect: () => sessionOf(world, machine, outage, watch),
    clock,
    log: SILENCE,
    fold: (tx, slot, takenAtMs, after) =>
      foldSlot(tx, slot, clock.now(), { after, lowBalanceMicrocents: options.lowBalanceMicrocents, takenAtMs }),
    listUnfolded: listUnfoldedSlots,
    alone: false,
    onRegained: () => onRegained(),
  })
  options.onSlot(slot.number)
  void slot.foldAbandoned().catch(() => {})
  await preparePartitions(database, clock.now())
  const plans = openPlans({ database, clock, offered: () => [] })
  const writer = new Writer({
    database,
    slot: () => slot.number,
    takenAtMs: slot.takenAtMs,
    lowBalanceMicrocents: options.lowBalanceMicrocents,
    clock,
    random,
    log: SILENCE,
    errors: WRITER_ERRORS,
    betweenBatches: [plans.reads],
    chargeDeadlineMs: DEFAULT_FIXED_SETTINGS.chargeDeadlineMs,
    onEnded: plans.end,
  })
  watchHolds(writer, () => clock.monotonicMs(), options.onTaken)
  const opened = openMoney({
    clock,
    random,
    renewer: writer,
    plans,
    ownsSlot: () => slot.isOwned(),
    knowsTime: () => trouble() === null,
    sendReclaim: createReclaimer({ ...options, database, slot, clock, log: SILENCE }),
    ...(options.looks ? { readFigures: (id: string, nowMs: number) => readFigures(database, id, nowMs) } : {}),
  })
  const money = Object.assign(opened, { writer })
  onRegained = () => {
    money.forgetShares()
    options.onRegained()
  }
  outage.listeners.set(machine, {
    hear: { [RECLAIM_CHANNEL]: money.hearReclaim, [CHANGE_CHANNEL]: money.hearChange },
    missed: money.comeIntoLineWithAll,
  })
  keepHouse(machine, [() => slot.foldAbandoned(), () => money.dropIdle()])
  return { machine, clock, trouble, firstAheadMs, database, slot, money, writer }
}

/** The periodic jobs that are about money. */
function keepHouse({ clock }: Machine, steps: readonly (() => Promise<unknown>)[]): void {
  const round = async () => {
    for (const step of steps) await step().catch(() => {})
    arm()
  }
  const arm = () => void clock.after(MINUTE_MS, () => void round())
  arm()
}
