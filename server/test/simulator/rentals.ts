/** Instances that are rented beside the calls: billed and ended by the real code, by any process and at any time. */

import { NEW_ACCOUNT_CAP_MICROCENTS } from '../../src/billing/admission/gates.ts'
import { lock } from '../../src/billing/admission/holds/hold.ts'
import { placeInstanceHold } from '../../src/billing/admission/holds/instanceHold.ts'
import { MoneyWait } from '../../src/billing/admission/moneyWait.ts'
import { priceInstanceLife } from '../../src/billing/charges/pricing.ts'
import { prepareInstanceCharges } from '../../src/billing/charges/settleInstance.ts'
import type { Database } from '../../src/infra/postgres/database.ts'
import { type BillMeans, billInstance } from '../../src/instances/bill.ts'
import { endLife } from '../../src/instances/endLife.ts'
import { type Instance, isLive, secondAt } from '../../src/instances/job/instance.ts'
import { insertInstance, lockInstance, moveInstance } from '../../src/instances/store.ts'
import { uuidV7 } from '../../src/lib/ids.ts'
import { SILENCE } from '../silence.ts'
import type { Fleet } from './fleet.ts'
import type { Gateway } from './gateway.ts'
import type { Machine } from './machine.ts'
import { type Plan, randomBytesOf } from './plan.ts'
import type { Candidate, World } from './world.ts'

/** Money is held for the next ten minutes, as by default. */
const COVER_SECONDS = 600
const LIVE_MOST = 20
/** Leaps of some of a minute, so that minutes are over in a history that else takes seconds. */
const LEAPS = 30

export class Rentals {
  /** Ids of instances that nobody billed in time: some of their seconds may be free. */
  readonly late = new Set<string>()
  /** Creations, bills and deletions that have not ended, by the process that carries them out. */
  private readonly works = new Set<{ readonly machine: Machine }>()
  private readonly world: World
  private readonly plan: Plan
  private readonly random
  private left: number
  private leaps = LEAPS
  private made = 0

  constructor(world: World, plan: Plan, seed: number) {
    this.world = world
    this.plan = plan
    this.left = plan.rentals
    this.random = randomBytesOf(seed * 5 + 3)
  }

  /** How many works of living processes have not ended. */
  get underWay(): number {
    return [...this.works].filter(({ machine }) => machine.isAlive).length
  }

  /** Returns the candidates for what happens next: an instance is rented, billed or deleted, and some of a minute goes by. */
  candidates(gateway: Gateway, organizationId: string): Candidate[] {
    if (this.plan.rentals === 0) return []
    const found: Candidate[] = []
    const { world } = this
    if (this.left > 0) found.push({ weight: 3, happen: () => this.rent(gateway, organizationId) })
    if (this.made === 0) return found
    found.push({ weight: 1.2, happen: () => this.withSome(gateway, (id) => this.bill(gateway, id)) })
    found.push({ weight: 0.1, happen: () => this.withSome(gateway, (id) => this.delete(gateway, id)) })
    if (this.leaps > 0 && world.promptUntilMs === null) {
      found.push({
        weight: 0.3,
        happen: async () => {
          this.leaps -= 1
          // Nothing is late by it, but providers.
          if (!world.engine.isConcurrent) await world.catchUp()
          world.elapsedMs += world.random.between(4_000, 25_000)
          world.note('SOME OF A MINUTE GOES BY')
        },
      })
    }
    return found
  }

  /** Ends every instance that lives; false: there was none. */
  async endAll({ living }: Fleet): Promise<boolean> {
    const [gateway] = living
    const instances = (await this.world.engine.snapshot()).instances.filter((each) => each.isLive)
    if (gateway !== undefined && this.underWay === 0) for (const { id } of instances) this.delete(gateway, id)
    return instances.length > 0
  }

  private async withSome(gateway: Gateway, act: (id: string) => void): Promise<void> {
    const live = (await this.world.engine.snapshot()).instances.filter((each) => each.isLive)
    const some = live[this.world.random.between(0, Math.max(live.length - 1, 0))]
    if (some !== undefined && gateway.machine.runs) act(some.id)
  }

  private rent(gateway: Gateway, organizationId: string): void {
    if (!gateway.machine.runs) return
    this.left -= 1
    this.made += 1
    const { world, plan } = this
    const usual = 100n * plan.scale * BigInt(world.random.between(1, 60))
    const hourMicrocents = usual > NEW_ACCOUNT_CAP_MICROCENTS ? NEW_ACCOUNT_CAP_MICROCENTS : usual
    const principalId = `00000000-0000-4000-9000-${String(this.made).padStart(12, '0')}`
    const { database, clock, money } = gateway
    world.note(`${gateway.machine.name}: an instance at ${hourMicrocents} an hour for ${organizationId}`)
    this.track(gateway, async () => {
      if (!money.knowsTime()) return
      const id = uuidV7(clock.now(), this.random)
      const rented = { id, organizationId, principalId, hourMicrocents }
      const wait = new MoneyWait(money)
      while (!(await accept(database, rented, clock.now()))) {
        const share = money.share(organizationId)
        if (wait.endFor(share) !== null) return
        await wait.forAccount(share)
      }
    })
  }

  private bill(gateway: Gateway, id: string): void {
    this.world.note(`${gateway.machine.name}: bills instance ${id}`)
    this.track(gateway, async () => {
      const means = this.meansOf(gateway)
      if (!gateway.money.knowsTime()) return
      const instance = await read(gateway.database, id)
      if (instance !== null) await billInstance(means, instance)
    })
  }

  private delete(gateway: Gateway, id: string): void {
    this.world.note(`${gateway.machine.name}: deletes instance ${id}`)
    this.track(gateway, async () => {
      const means = this.meansOf(gateway)
      const { database, clock } = gateway
      const before = await read(database, id)
      if (before === null) return
      await prepareInstanceCharges(database, before.createdAtMs, Math.max(clock.now(), before.createdAtMs))
      await database.transaction(async (tx) => {
        const own = await lockInstance(tx, id)
        if (own === null || !isLive(own)) return
        await lock(tx, own.organizationId)
        const nowMs = clock.now()
        await endLife(tx, means, own, { reason: 'deleted', second: secondAt(own, nowMs), endedAtMs: nowMs }, nowMs)
      })
    })
  }

  /** Returns the means of a process to bill instances. Notes those that nobody billed in time. */
  private meansOf({ database, clock, money }: Gateway): BillMeans {
    return {
      ...{ database, clock, money },
      lowBalanceMicrocents: this.plan.lowBalanceMicrocents,
      settings: { coverSeconds: COVER_SECONDS },
      log: { ...SILENCE, warn: ({ instance }: { instance?: unknown }) => void this.late.add(String(instance)) },
      onNoticed: () => {},
    }
  }

  /** A statement may be lost, and its process die: then nothing has happened, or all of it. */
  private track({ machine }: Gateway, perform: () => Promise<void>): void {
    const work = { machine }
    this.works.add(work)
    const ended = () => void this.works.delete(work)
    perform().then(ended, ended)
  }
}

type Rented = Pick<Instance, 'id' | 'organizationId' | 'principalId' | 'hourMicrocents'>

/** Accepts an instance, which runs at once; false: a gate leaves too little money now. */
function accept(database: Database, rented: Rented, createdAtMs: number): Promise<boolean> {
  const { id, organizationId, hourMicrocents } = rented
  return database.transaction(async (tx) => {
    const hold = { id, organizationId, microcents: priceInstanceLife(hourMicrocents, COVER_SECONDS) }
    if (!(await placeInstanceHold(tx, hold, hourMicrocents, createdAtMs))) return false
    const offered = { name: id, app: 'app', model: null, gpuType: 'h100', gpuCount: 1, diskGb: 10 }
    const instance = { ...rented, ...offered, createdAtMs, heldSecond: COVER_SECONDS, priceHash: new Uint8Array(32) }
    const dues = { liveMost: LIVE_MOST, dueAtMs: createdAtMs, billDueAtMs: createdAtMs }
    await insertInstance(tx, instance, dues)
    await moveInstance(tx, 'run', { id, attempt: 0 }, { dueAtMs: createdAtMs, runningAtMs: createdAtMs })
    return true
  })
}

function read(database: Database, id: string): Promise<Instance | null> {
  return database.transaction((tx) => lockInstance(tx, id))
}
