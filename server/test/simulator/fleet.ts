/** The gateway processes of a history: starting, dying, stopping and going on. */

import type { SqlParameter } from '../../src/infra/postgres/database.ts'
import type { RandomBytes } from '../../src/lib/ids.ts'
import type { Allowances } from './bound.ts'
import type { Snapshot } from './engine.ts'
import { type Gateway, startGateway } from './gateway.ts'
import type { Taken } from './holds.ts'
import type { Machine } from './machine.ts'
import type { Outage } from './outage.ts'
import type { Plan } from './plan.ts'
import type { World } from './world.ts'

/** Owners have this long after a restart of the database to take their locks again (issue: 60 s). */
const OWNERS_FIRST_MS = 60_000

/**
 * The amount that a fold gives back of each share: more than any account has (`billing/admission/renewal/renew.ts`).
 */
const EVERYTHING = String(1n << 62n)

/** Where the slot stands among the parameters of each statement that {@link Fleet} watches: `$1`, `$6`, `$13`. */
const PLACES = { taking: 1, renewal: 6, post: 13 } as const
/** The same of the organizations and costs of charges, in the literals of arrays. */
const CHARGES = { organizations: 3, costs: 10 } as const

/** Statements that take their time, and whose connection has nothing else to do. */
const LASTING: ReadonlySet<string> = new Set(['renewal', 'post'])

export class Fleet {
  readonly gateways: Gateway[] = []
  /** Machines whose process has not got through its start, or will not. */
  readonly starting = new Set<Machine>()
  /** Rules that were broken by what was done, not by what it led to. */
  readonly broken: string[] = []
  private readonly slots = new Map<Machine, number>()
  private readonly doubted = new Set<Machine>()
  /** Slots in which charges came when another process had them: it folds them when it next asks for the account. */
  readonly lateInTaken = new Set<number>()
  /** Killed processes whose slot was folded since. */
  private readonly foldedDead = new Set<Machine>()
  private started = 0
  private readonly world: World
  private readonly outage: Outage
  private readonly plan: Plan
  private readonly random: RandomBytes
  private readonly allowances: Allowances
  /** Called when a process is gone, for the calls that it had. */
  onDeath: (machine: Machine) => void = () => {}
  /** Told of each charge that a writer takes, and what was held for it. */
  onTaken: (taken: Taken) => void = () => {}

  constructor(world: World, outage: Outage, plan: Plan, random: RandomBytes, allowances: Allowances) {
    this.world = world
    this.outage = outage
    this.plan = plan
    this.random = random
    this.allowances = allowances
  }

  get living(): Gateway[] {
    return this.gateways.filter(({ machine }) => machine.isAlive)
  }

  /** Starts a process; whether it gets a slot shows later. */
  start(): void {
    this.started += 1
    const { skewMs } = this.plan
    const skew = skewMs === 0 ? 0 : this.world.random.between(-skewMs, skewMs)
    const machine = this.world.machine(`process ${this.started}`, skew)
    this.starting.add(machine)
    this.world.note(`${machine.name} starts`)
    startGateway({
      world: this.world,
      machine,
      outage: this.outage,
      random: this.random,
      lowBalanceMicrocents: this.plan.lowBalanceMicrocents,
      followsDatabase: this.plan.trouble.turns > 0,
      looks: this.plan.looks,
      onTaken: (taken) => this.onTaken(taken),
      watch: (from, text, parameters) => this.watch(from, text, parameters),
      onSlot: (slot) => this.slots.set(machine, slot),
      onRegained: () => this.doubted.delete(machine),
    }).then(
      (gateway) => {
        this.starting.delete(machine)
        if (machine.isAlive) this.gateways.push(gateway)
      },
      (error: unknown) => this.kill(machine, String(error)),
    )
  }

  /** kill -9: its memory is gone, and with its connections its locks; of what it had asked for, some still happens. */
  kill(machine: Machine, why: string): void {
    if (!machine.isAlive) return
    const { world, outage } = this
    world.note(`${machine.name} DIES: ${why}`)
    for (const asked of world.asked.filter((each) => each.machine === machine)) {
      const isInTransaction = machine.transactions.size > 0
      if (asked.isBlocked() || isInTransaction || world.random.percent(50)) world.abandon(asked)
      // The server carries it out to its end, which may come when another process has the slot.
      else if (!LASTING.has(asked.label) || world.random.percent(50)) void world.run(asked, 'fine')
    }
    machine.die()
    for (const transaction of machine.transactions) outage.endTransaction(machine, transaction)
    for (const session of machine.sessions) outage.cut(machine, session)
    outage.listeners.delete(machine)
    this.starting.delete(machine)
    this.onDeath(machine)
  }

  /** SIGSTOP, a laptop's lid: nothing of it runs, and its connections stay. */
  pause(machine: Machine): void {
    this.world.note(`${machine.name} IS STOPPED`)
    machine.troubledAtMs = this.world.elapsedMs
    machine.isPaused = true
  }

  resume(machine: Machine): void {
    this.world.note(`${machine.name} goes on`)
    machine.troubledAtMs = this.world.elapsedMs
    machine.isPaused = false
  }

  /** Its slot was folded by another: what it believes may be more than the books say, until it has its slot again. */
  isTrusted(machine: Machine): boolean {
    return !this.doubted.has(machine)
  }

  /** It had its slot all the time: what its calls hold is granted to it, whatever happened. */
  isSteady(machine: Machine): boolean {
    return this.isTrusted(machine) && !machine.hasLostSession
  }

  /** Sees who folds whose slot, before it is done. */
  private watch(machine: Machine, text: string, parameters: readonly SqlParameter[]): void | Promise<void> {
    const takes = text.includes('insert into processes')
    const folds = text.includes('wanted as (')
    const posts = text.includes('insert into charges')
    if (!takes && !folds && !posts) return
    const slot = slotOf(text, parameters, takes ? PLACES.taking : folds ? PLACES.renewal : PLACES.post)
    // A process that takes a slot has its lock, and folds it as its own from then on.
    const before = this.slots.get(machine)
    const isOwn = before === slot
    if (takes) this.slots.set(machine, slot)
    // It moves to another slot: what it believes was granted to the one before.
    if (takes && before !== undefined && !isOwn) this.doubted.add(machine)
    // A renewal, also of the slot before: it cites its taking.
    if (folds && !String(parameters[4]).includes(EVERYTHING)) return
    // It has its slot again, and folds what it and others were granted by it: its calls go on by what they hold.
    const isOwnFold = isOwn && folds
    // Several, where one has lost it to another and does not know.
    const others = [...this.slots.keys()].filter((other) => this.slots.get(other) === slot && other !== machine)
    const owners = others.filter(({ isAlive }) => isAlive)
    if (folds) for (const other of others) if (!other.isAlive) this.foldedDead.add(other)
    if (posts && owners.length > 0) this.lateInTaken.add(slot)
    if (posts && this.foldedDead.has(machine)) {
      this.allowances.noticeLatePost(slot, owners.length > 0, costsOf(text, parameters))
    }
    const foldsLate = folds && this.allowances.hasLateCharges(slot)
    if (owners.length === 0 && !isOwnFold && !foldsLate) return
    for (const owner of owners) this.doubted.add(owner)
    // The charges that a process posts by a slot that is another's now were spent of its earlier grant.
    if (posts) return
    if (isOwnFold) this.doubted.add(machine)
    for (const owner of owners) this.judgeFold(machine, owner, slot, { isOwnFold, isOthers: folds && !isOwn })
    const note = (snapshot: Snapshot) => {
      if (foldsLate) this.allowances.noticeLateFold(snapshot, slot)
      if (owners.length > 0 || isOwnFold) this.allowances.noticeLost(snapshot, slot)
    }
    const snapshot = this.world.engine.snapshot()
    return snapshot instanceof Promise ? snapshot.then(note) : note(snapshot)
  }

  private judgeFold(
    machine: Machine,
    owner: Machine,
    slot: number,
    { isOwnFold, isOthers }: { readonly isOwnFold: boolean; readonly isOthers: boolean },
  ): void {
    // A fold of its own cites its taking of the slot: who has got the lock since, and not yet taken it, loses nothing by it.
    if (!isOwnFold && [...owner.sessions].some(({ locked }) => locked.has(slot))) {
      this.broken.push(`${machine.name} folds slot ${slot}, the lock of which ${owner.name} has`)
    }
    const upMs = this.world.startMs + this.world.elapsedMs - this.outage.startedAtMs
    // A process that has not got through its start was granted nothing yet.
    const isServing = !this.starting.has(owner)
    if (isOthers && isServing && upMs < OWNERS_FIRST_MS - 2 * this.plan.skewMs - 1) {
      this.broken.push(`${machine.name} folds slot ${slot} of ${owner.name} ${upMs} ms after the database came up`)
    }
  }
}

/** Returns the cost of the charges of each organization that a statement posts. Throws where its parameters have been changed. */
function costsOf(text: string, parameters: readonly SqlParameter[]): Map<string, bigint> {
  if (!text.includes(`$${CHARGES.costs}::text::bigint[]`)) throw new Error(`costs stand elsewhere in ${text}`)
  const listAt = (place: number) =>
    String(parameters[place - 1])
      .slice(1, -1)
      .split(',')
  const costs = listAt(CHARGES.costs)
  const sums = new Map<string, bigint>()
  for (const [index, organizationId] of listAt(CHARGES.organizations).entries()) {
    sums.set(organizationId, (sums.get(organizationId) ?? 0n) + BigInt(costs[index] ?? 0))
  }
  return sums
}

/** Throws where the statement has no number of a slot at this place any more: its parameters have been changed. */
function slotOf(text: string, parameters: readonly SqlParameter[], place: number): number {
  const slot = parameters[place - 1]
  if (typeof slot !== 'number' || !text.includes(`$${place}::integer`)) {
    throw new Error(`parameter ${place} is no slot in ${text}`)
  }
  return slot
}
