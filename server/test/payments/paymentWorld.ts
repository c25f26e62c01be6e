/** The world of one history: its time, its organizations, the payment provider, the processes, and how often something fails. */

import { openAccount } from '../../src/billing/admission/balance/balance.ts'
import { DEFAULT_GRACE_MS, type Plan } from '../../src/catalog/plan.ts'
import { inTransaction } from '../../src/identity/audit/inTransaction.ts'
import { createOrganization } from '../../src/identity/organizations/create.ts'
import type { Database } from '../../src/infra/postgres/database.ts'
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/lib/time.ts'
import { type Seeded, seeded } from '../faults/seeded.ts'
import type { Customer } from './checker.ts'
import { SimulatedProcess, type Troubles } from './simulatedProcess.ts'
import { SimulatedProvider } from './simulatedProvider.ts'
import { Turns } from './turns.ts'

const STARTS_MS = Date.UTC(2030, 0, 15, 12)
const PROCESSES = 2
const CUSTOMERS = 2
const QUOTA = { inputTokens: 1_000, outputTokens: 1_000, weeklyTokens: 1_000, backstopMicrocents: 0n }

export const SIMULATED_PLANS: readonly Plan[] = ['small', 'large'].map((key) => ({
  key,
  name: key,
  graceMs: DEFAULT_GRACE_MS,
  quota: QUOTA,
  paymentPrice: `price_${key}`,
}))

/** An act of a history. The weight says how often it comes. */
export type Act = readonly [weight: number, act: (world: PaymentWorld) => void | Promise<void>]

export class PaymentWorld {
  nowMs = STARTS_MS
  readonly random: Seeded
  readonly turns: Turns
  readonly provider: SimulatedProvider
  readonly troubles: Troubles
  /** Whether callbacks come. */
  readonly telling: 'all' | 'some' | 'none'
  readonly dies: boolean
  readonly turnsClock: boolean
  /** True when a backup is restored. */
  readonly restores: boolean
  hasBackup = false
  readonly database: Database
  readonly customers: Customer[] = []
  /** Checkouts whose address somebody was given in an answer. */
  readonly given: string[] = []
  readonly trace: string[] = []
  readonly tally = new Map<string, number>()
  /** No clock was further ahead. */
  latestSkewMs = 0
  private readonly processes: SimulatedProcess[] = []

  constructor(seed: number, database: Database) {
    this.database = database
    const random = seeded(seed)
    this.random = random
    this.turns = new Turns(random, seed % 4 === 0)
    this.provider = new SimulatedProvider(
      () => this.nowMs,
      random.pick([0, 0, 10 * MINUTE_MS, HOUR_MS]),
      seed % 3 === 0,
    )
    this.telling = random.pick(['all', 'some', 'some', 'none'])
    this.dies = random.percent(40)
    this.turnsClock = random.percent(40)
    // Where transactions are open, tables can't be replaced.
    this.restores = random.percent(15) && !this.turns.isLoose
    const often = () => (random.percent(40) ? random.pick([2, 5, 15]) : 0)
    this.troubles = {
      refusals: often(),
      lostAnswers: often(),
      failedStatements: often() / 2,
      lostCommits: often() / 2,
      deadTransactions: this.dies ? 5 : 0,
    }
    for (let each = 0; each < PROCESSES; each += 1) this.processes.push(this.newProcess())
  }

  async makeCustomers(): Promise<void> {
    for (let each = 0; each < CUSTOMERS; each += 1) {
      const clock = { now: () => this.nowMs, monotonicMs: () => 0, after: () => () => {} }
      const name = `customer ${each}`
      const made = await inTransaction(this.database, null, (tx) =>
        createOrganization(tx, { clock, randomBytes: this.randomBytes, openAccount }, { name, standing: 'new' }),
      )
      if (!made.ok) throw new Error(made.refusal.message)
      this.customers.push({ organizationId: made.value.id, name })
    }
  }

  newProcess(): SimulatedProcess {
    return new SimulatedProcess({
      database: this.database,
      provider: this.provider,
      turns: this.turns,
      random: this.random,
      randomBytes: this.randomBytes,
      troubles: this.troubles,
      plans: SIMULATED_PLANS,
      nowMs: () => this.nowMs,
    })
  }

  /** A process that lives; one that was killed is started again. */
  process(): SimulatedProcess {
    const index = this.random.between(0, this.processes.length - 1)
    const found = this.processes[index]
    if (found !== undefined && !found.isDead) return found
    const started = this.newProcess()
    this.processes[index] = started
    return started
  }

  /** Ends the trouble; all clocks are right. */
  calmDown(): void {
    for (const name of Object.keys(this.troubles)) this.troubles[name as keyof Troubles] = 0
    for (const each of this.processes) each.skewMs = 0
  }

  killAll(): void {
    for (const each of this.processes) each.kill()
  }

  customer(): Customer {
    return this.random.pick(this.customers as [Customer, ...Customer[]])
  }

  /** One of a list, by the seed; undefined where it is empty. */
  oneOf<T>(list: readonly T[]): T | undefined {
    return list.length === 0 ? undefined : list[this.random.between(0, list.length - 1)]
  }

  say(words: string): void {
    this.trace.push(`${new Date(this.nowMs).toISOString()} ${words}`)
    const [what = ''] = words.split(':')
    this.tally.set(what, (this.tally.get(what) ?? 0) + 1)
  }

  /** Begins work of a process. It waits for turns, may fail, and may never end. */
  start(words: string, work: () => Promise<unknown>): void {
    this.say(words)
    work().catch((error: unknown) => this.say(`failed: ${words}: ${error instanceof Error ? error.message : error}`))
  }

  wait(passesMs: number): void {
    this.nowMs += passesMs
    this.say(`time: ${passesMs / SECOND_MS} s`)
    this.provider.passTime()
  }

  private readonly randomBytes = (length: number) => Uint8Array.from({ length }, () => this.random.between(0, 255))
}
