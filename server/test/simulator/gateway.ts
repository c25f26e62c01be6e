/** One gateway process, put together as `billing/open.ts` does it, with the machine and the database of the simulator. */

import { createReclaimer } from '../../src/billing/admission/accounts/reclaimer.ts'
import { type OpenMoney, openMoney } from '../../src/billing/admission/openMoney.ts'
import { foldSlot } from '../../src/billing/admission/renewal/renew.ts'
import { preparePartitions } from '../../src/billing/charges/partitions.ts'
import type { ChargingMoney } from '../../src/billing/charges/settle.ts'
import { Writer } from '../../src/billing/charges/writer.ts'
import { openPlans } from '../../src/billing/plans/plans.ts'
import type { Database } from '../../src/infra/postgres/database.ts'
import type { RandomBytes } from '../../src/lib/ids.ts'
import { MINUTE_MS } from '../../src/lib/time.ts'
import { claimSlot, type Slot } from '../../src/processes/slot.ts'
import { SILENCE } from '../silence.ts'
import { databaseOf, sessionOf, type Watch } from './connections.ts'
import { watchHolds } from './holds.ts'
import type { Machine } from './machine.ts'
import type { Outage } from './outage.ts'
import type { World } from './world.ts'
import { WRITER_ERRORS } from './writerErrors.ts'

export interface Gateway {
  readonly machine: Machine
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
  readonly watch: Watch
  /** Told of each charge that the writer takes, and what was held for it. */
  readonly onTaken: (keyId: string, heldMicrocents: bigint | null) => void
  /** Told the number of the slot before the process admits anything. */
  readonly onSlot: (slot: number) => void
  /** It had lost its slot and has it again. */
  readonly onRegained: () => void
  /** The process gives up: it can't have its slot. */
  readonly onFatal: (reason: string) => void
}

/** Starts a process; rejects when it can't get a slot, as its start then fails. */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const { world, machine, outage, random, watch, onFatal } = options
  const { clock } = machine
  const database = databaseOf(world, machine, outage, watch)
  let onRegained = () => {}
  const slot = await claimSlot({
    database,
    connect: () => sessionOf(world, machine, outage, watch),
    clock,
    log: SILENCE,
    fold: (tx, slot, takenAtMs) => foldSlot(tx, slot, clock.now(), options.lowBalanceMicrocents, takenAtMs),
    alone: false,
    onRegained: () => onRegained(),
    onLost: onFatal,
  })
  options.onSlot(slot.number)
  await slot.foldAbandoned()
  await preparePartitions(database, clock.now())
  const plans = openPlans({ database, clock, offered: () => [] })
  const writer = new Writer({
    database,
    slot: slot.number,
    takenAtMs: slot.takenAtMs,
    lowBalanceMicrocents: options.lowBalanceMicrocents,
    clock,
    random,
    log: SILENCE,
    errors: WRITER_ERRORS,
    betweenBatches: [plans.reads],
    onEnded: plans.end,
  })
  watchHolds(writer, options.onTaken)
  const opened = openMoney({
    clock,
    random,
    renewer: writer,
    plans,
    ownsSlot: () => slot.isOwned(),
    sendReclaim: createReclaimer({ database, slot, clock, log: SILENCE }),
  })
  const money = Object.assign(opened, { writer })
  onRegained = () => {
    money.forgetShares()
    options.onRegained()
  }
  outage.listeners.set(machine, { hear: money.hearReclaim, missed: money.reclaimAll })
  keepHouse(machine, [() => slot.foldAbandoned(), () => money.dropIdle()])
  return { machine, database, slot, money, writer }
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
