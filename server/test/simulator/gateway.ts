/** One gateway process, put together as `app.ts` does it, with the machine and the database of the simulator. */

import type { Database } from '../../src/io/postgres/database.ts'
import type { RandomBytes } from '../../src/kernel/ids.ts'
import { MINUTE_MS } from '../../src/kernel/time.ts'
import { type OpenMoney, openMoney } from '../../src/money/openMoney.ts'
import { createRecaller } from '../../src/money/recaller.ts'
import { claimSlot, type Slot } from '../../src/money/slot.ts'
import { Writer } from '../../src/money/writer.ts'
import { preparePartitions } from '../../src/workers.ts'
import { SILENCE } from '../silence.ts'
import { databaseOf, sessionOf, type Watch } from './connections.ts'
import type { Machine } from './machine.ts'
import type { Outage } from './outage.ts'
import { isRefusedData } from './refusedData.ts'
import type { World } from './world.ts'

export interface Gateway {
  readonly machine: Machine
  readonly database: Database
  readonly slot: Slot
  readonly money: OpenMoney
  readonly writer: Writer
}

export interface GatewayOptions {
  readonly world: World
  readonly machine: Machine
  readonly outage: Outage
  readonly random: RandomBytes
  readonly lowBalanceMicrocents: bigint
  readonly watch: Watch
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
    lowBalanceMicrocents: options.lowBalanceMicrocents,
    alone: false,
    onRegained: () => onRegained(),
    onLost: onFatal,
  })
  options.onSlot(slot.number)
  await slot.reclaim()
  await preparePartitions(database, clock.now())
  const writer = new Writer({
    database,
    slot: slot.number,
    takenAtMs: slot.takenAtMs,
    lowBalanceMicrocents: options.lowBalanceMicrocents,
    clock,
    log: SILENCE,
    errors: { isRefusedData },
  })
  const money = openMoney({
    clock,
    random,
    writer,
    ownsSlot: () => slot.isOwned(),
    sendRecall: createRecaller({ database, slot, clock, log: SILENCE }),
  })
  onRegained = () => {
    money.forgetAllotments()
    options.onRegained()
  }
  outage.listeners.set(machine, { hear: money.hearRecall, missed: money.recallAll })
  keepHouse(machine, [() => slot.reclaim(), () => money.dropIdle()])
  return { machine, database, slot, money, writer }
}

/** The round of `workers.ts`, as far as it is about money. */
function keepHouse({ clock }: Machine, steps: readonly (() => Promise<unknown>)[]): void {
  const round = async () => {
    for (const step of steps) await step().catch(() => {})
    arm()
  }
  const arm = () => void clock.after(MINUTE_MS, () => void round())
  arm()
}
