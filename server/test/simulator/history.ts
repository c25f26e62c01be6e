/** One seed: a history of calls and troubles, a time without trouble, a rest, and what must be true all along. */

import { NEW_ACCOUNT_CAP_MICROCENTS } from '../../src/billing/admission/gates.ts'
import { Allowances } from './bound.ts'
import { type Call, startCall } from './call.ts'
import { changeSomething } from './changes.ts'
import { findProblems } from './checker.ts'
import { databaseOf } from './connections.ts'
import type { Engine, Snapshot } from './engine.ts'
import { Fleet } from './fleet.ts'
import { checkLiveness, checkRest } from './liveness.ts'
import { Outage } from './outage.ts'
import { isAmple, type Plan, planOf, randomBytesOf } from './plan.ts'
import { Rentals } from './rentals.ts'
import { makeScript } from './script.ts'
import { makeOrganizations } from './setUp.ts'
import { findShareProblems } from './shares.ts'
import { checkShrunk } from './shrinking.ts'
import { troublesOf } from './troubles.ts'
import { Waits } from './waits.ts'
import { type Candidate, Endless, FOLLOWED_WITHIN_MS, World } from './world.ts'

/** Steps of trouble, and of the time after it until every call must have its answer. */
const STEPS_MOST = 600
const QUIET_STEPS_MOST = 4_000
/** With a real server every snapshot is a statement: every so many steps one is looked at. */
const STEPS_A_SNAPSHOT = 6

export interface Result {
  readonly seed: number
  /** The first problem, and all others of that step. Empty: none. */
  readonly problems: readonly string[]
  readonly steps: number
  readonly calls: number
  readonly answers: ReadonlyMap<string, number>
  /** The overspent amount of each organization beside its bound, in words, and as a share of it. */
  readonly bound: readonly { readonly share: number; readonly words: string }[]
  readonly trace: readonly string[]
}

export class History {
  readonly world: World
  readonly plan: Plan
  readonly outage: Outage
  readonly fleet: Fleet
  readonly calls = new Map<string, Call>()
  readonly allowances: Allowances
  readonly rentals: Rentals
  organizations: readonly string[] = []
  problems: string[] = []
  private readonly seed: number
  private readonly trace: string[] = []
  private readonly engine: Engine
  private readonly random
  private readonly waits = new Waits()
  private changesLeft: number
  private changing = 0

  constructor(seed: number, engine: Engine, traces: boolean) {
    this.seed = seed
    this.engine = engine
    this.plan = planOf(seed)
    this.allowances = new Allowances(NEW_ACCOUNT_CAP_MICROCENTS, this.plan)
    this.changesLeft = this.plan.changes
    this.random = randomBytesOf(seed * 3 + 7)
    this.world = new World(seed, engine, this.plan.startMs, traces ? this.trace : null)
    this.outage = new Outage(this.world)
    this.rentals = new Rentals(this.world, this.plan, seed)
    this.fleet = new Fleet(this.world, this.outage, this.plan, this.random, this.allowances)
    this.fleet.onTaken = ({ keyId, heldMicrocents, isSlow }) => {
      const call = this.calls.get(keyId)
      if (call !== undefined) Object.assign(call, { heldMicrocents, wasSlow: isSlow })
    }
    this.fleet.onDeath = (machine) => {
      for (const call of this.calls.values()) {
        if (call.machine === machine && call.answer === null) this.end(call, 'its gateway died')
      }
    }
  }

  async run(): Promise<Result> {
    const operator = this.world.machine('the operator', 0)
    this.organizations = await makeOrganizations(this.engine, operator.clock, this.random, this.plan.organizations)
    this.allowances.notice(await this.engine.snapshot(), 0)
    for (let process = 0; process < this.plan.processes; process += 1) this.fleet.start()
    this.world.sources.push(() => this.workload(), troublesOf(this.world, this.outage, this.fleet, this.plan))
    try {
      await this.pass()
    } catch (error) {
      if (!(error instanceof Endless)) throw error
      this.problems.push(error.message)
    }
    for (const problem of this.problems) this.world.note(`PROBLEM: ${problem}`)
    for (const machine of this.world.machines) this.fleet.kill(machine, 'the history is over')
    const answers = [...this.calls.values()].map(({ answer }) => answer ?? 'none')
    return {
      seed: this.seed,
      problems: this.problems,
      steps: this.world.steps,
      calls: this.calls.size,
      answers: new Map([...Map.groupBy(answers, (answer) => answer)].map(([answer, all]) => [answer, all.length])),
      bound: this.allowances.print(),
      trace: this.trace,
    }
  }

  /** The time with trouble, that without, and what is looked at when all is over. */
  private async pass(): Promise<void> {
    const isBusy = () =>
      this.calls.size < this.plan.calls || [...this.calls.values()].some(({ answer }) => answer === null)
    for (let step = 0; step < STEPS_MOST && isBusy() && this.problems.length === 0; step += 1) await this.step()
    if (this.problems.length === 0) await this.quieten()
    if (this.problems.length === 0) this.problems = await checkRest(this)
    if (this.problems.length === 0) this.problems = await checkLiveness(this)
    if (this.problems.length === 0) await this.check({ isLast: true })
  }

  /** Sends a call of an organization to a process. */
  call(gateway: Fleet['gateways'][number], organizationId: string, more: Partial<Call> = {}): Call {
    const { random } = this.world
    const { models, poisoned, leavesInOutages } = this.plan
    const served =
      poisoned !== null && random.percent(5) ? poisoned : (models[random.between(0, models.length - 1)] ?? models[0])
    if (served === undefined) throw new Error('a plan without models')
    const call = startCall(
      gateway,
      {
        organizationId,
        keyId: keyOf(this.calls.size),
        resolved: served,
        script: makeScript(random),
        stream: random.percent(leavesInOutages ? 0 : 60),
        maxTokens: random.pick(leavesInOutages ? [null] : [null, 50, 300, 1_000]),
        ...more,
      },
      {
        nowMs: () => this.world.startMs + this.world.elapsedMs,
        isAllowed: (clockMs) => this.isAllowed(gateway, clockMs),
      },
      (ended) => this.end(ended, ended.answer ?? ''),
    )
    this.calls.set(call.keyId, call)
    this.world.note(
      `${call.machine.name}: call ${call.keyId.slice(-4)} of ${organizationId}, at most ${call.worst.wholeMicrocents}`,
    )
    return call
  }

  /** One step, and what must be true after it. */
  async step(): Promise<boolean> {
    const went = await this.world.step()
    this.outage.endIdleTransactions()
    this.outage.endSilentSessions()
    const isShrunk = await this.catchUpInTime()
    await this.check({ isShrunk })
    return went
  }

  /** True when everything has arrived by which processes must have shrunk running calls. */
  private async catchUpInTime(): Promise<boolean> {
    const { world, allowances, engine } = this
    const dueMs = engine.isConcurrent ? null : allowances.shrunkByMs
    if (dueMs === null || world.elapsedMs < dueMs) return false
    await world.catchUp()
    return true
  }

  async check({ isLast = false, isShrunk = false } = {}): Promise<void> {
    if (!isLast && this.engine.isConcurrent && this.world.steps % STEPS_A_SNAPSHOT !== 0) return
    const snapshot = await this.snapshot()
    this.allowances.notice(snapshot, this.world.elapsedMs)
    if (isShrunk) this.problems.push(...checkShrunk(this, snapshot))
    this.world.promptUntilMs = this.engine.isConcurrent ? null : this.allowances.shrunkByMs
    const found = findProblems({
      snapshot,
      calls: this.calls,
      allowances: this.allowances,
      late: this.rentals.late,
      nowMs: this.world.startMs + this.world.elapsedMs,
      ampleOrganizations: this.ampleOrganizations(),
      isLast,
    })
    this.problems.push(...this.fleet.broken, ...found)
    if (this.engine.isConcurrent) return
    const { fleet, calls } = this
    const hasPoison = this.plan.poisoned !== null
    this.problems.push(...findShareProblems({ snapshot, fleet, calls: [...calls.values()], hasPoison }))
    this.problems.push(...this.waits.check(this))
  }

  private ampleOrganizations(): ReadonlySet<string> {
    return new Set(this.organizations.filter((_, index) => isAmple(this.plan, index)))
  }

  private async snapshot(): Promise<Snapshot> {
    return await this.engine.snapshot()
  }

  /** No more trouble: everybody goes on, and every call must get its answer. */
  private async quieten(): Promise<void> {
    const { world, outage, fleet } = this
    world.note('NO MORE TROUBLE')
    world.sources.length = 0
    world.fate = () => 'fine'
    world.isCalm = true
    if (outage.isDown) outage.comeUp()
    if (world.isDatabaseTurned) world.turnDatabase(0)
    for (const machine of world.machines) if (machine.isPaused) fleet.resume(machine)
    const waits = () =>
      fleet.starting.size > 0 ||
      this.changing > 0 ||
      this.rentals.underWay > 0 ||
      isRented ||
      [...this.calls.values()].some(({ answer }) => answer === null)
    let steps = 0
    let isRented = await this.rentals.endAll(fleet)
    while ((waits() || fleet.living.length === 0) && this.problems.length === 0) {
      // A start that trouble has spoiled is tried again, as a supervisor does.
      if (fleet.living.length + fleet.starting.size === 0) fleet.start()
      steps += 1
      isRented = await this.rentals.endAll(fleet)
      if (steps > QUIET_STEPS_MOST || !(await this.step())) {
        const without = [...this.calls.values()].filter(({ answer }) => answer === null)
        const rented = isRented ? ', and there are instances' : ''
        this.problems.push(`${without.length} calls have no answer${rented} after ${steps} steps without trouble`)
      }
    }
  }

  /** Calls that come, clients that hang up, and what admins do. */
  private workload(): Candidate[] {
    const found: Candidate[] = []
    const { random } = this.world
    const gateways = this.fleet.living.filter(({ machine }) => machine.runs)
    const gateway = gateways[random.between(0, Math.max(gateways.length - 1, 0))]
    if (gateway !== undefined && this.calls.size < this.plan.calls) {
      found.push({
        weight: 3,
        // Where several things happen in one step, its process may be gone by then.
        happen: () => void (gateway.machine.runs && this.call(gateway, this.anyOrganization())),
      })
    }
    if (gateway !== undefined) found.push(...this.rentals.candidates(gateway, this.anyOrganization()))
    const open = [...this.calls.values()].filter(({ answer, machine }) => answer === null && machine.runs)
    const left = open[random.between(0, Math.max(open.length - 1, 0))]
    if (this.changesLeft > 0) found.push(...this.changes(left))
    if (left !== undefined) found.push(this.hangUp(left, 0.2))
    if (this.plan.leavesInOutages && this.outage.isDown) {
      const begun = open.find(hasBegun)
      if (begun !== undefined) found.push(this.hangUp(begun, 2))
    }
    return found
  }

  private hangUp(call: Call, weight: number): Candidate {
    return {
      weight,
      happen: async () => {
        // Where several things happen in one step, its answer may have been decided by one before.
        if (this.engine.isConcurrent) await new Promise((resolve) => setImmediate(resolve))
        if (call.answer !== null) return
        this.world.note(`${call.machine.name}: call ${call.keyId.slice(-4)}: its client hangs up`)
        call.hangUp()
      },
    }
  }

  /** Where limits are lowered under running calls, they are those of a call that is open. */
  private changes(open: Call | undefined): Candidate[] {
    if (!this.plan.stopsRunning) return [{ weight: 0.3, happen: () => this.change(this.anyOrganization()) }]
    if (open?.wasAdmitted !== true) return []
    return [{ weight: 0.6, happen: () => this.change(open.organizationId) }]
  }

  private anyOrganization(): string {
    return this.organizations[this.world.random.between(0, this.organizations.length - 1)] ?? ''
  }

  private change(organizationId: string): void {
    this.changesLeft -= 1
    this.changing += 1
    const [machine] = this.world.machines
    if (machine === undefined) throw new Error('a world without an operator')
    const told = [...this.calls.values()].filter((call) => call.told !== null && call.chargeId !== null)
    changeSomething({
      world: this.world,
      machine,
      database: databaseOf(this.world, machine, this.outage, () => {}),
      random: this.random,
      organizationId,
      usualMicrocents: 1_500n * this.plan.scale,
      stopsRunning: this.plan.stopsRunning,
      chargeId: told[this.world.random.between(0, Math.max(told.length - 1, 0))]?.chargeId ?? null,
    }).then(() => {
      this.changing -= 1
    })
  }

  /** Returns whether a process may go by such a time: one that the database has kept for a minute, or that it began with. */
  private isAllowed({ firstAheadMs }: Fleet['gateways'][number], clockMs: number): boolean {
    const { world } = this
    // Clocks of machines differ a little where nobody asks for the database's.
    if (this.plan.trouble.turns === 0) return true
    const aheadMs = world.aheadOf(clockMs)
    return world.hasHeld(aheadMs) || Math.abs(aheadMs - firstAheadMs) <= FOLLOWED_WITHIN_MS
  }

  private end(call: Call, answer: string): void {
    call.answer = answer
    if (call.endedAtMs === 0) call.endedAtMs = this.world.startMs + this.world.elapsedMs
    this.world.note(`${call.machine.name}: call ${call.keyId.slice(-4)} ends: ${answer}`)
    if (answer.startsWith('threw') || answer.includes('internal_error'))
      this.problems.push(`call ${call.keyId}: ${answer}`)
  }
}

/** Whether a part of its answer has come, which is kept until the rest has. */
function hasBegun({ stream, tokensTaken, isOver }: Call): boolean {
  return !stream && tokensTaken > 0 && !isOver
}

function keyOf(index: number): string {
  return `00000000-0000-4000-8000-${String(index + 1).padStart(12, '0')}`
}
