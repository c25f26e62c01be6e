/** A gateway process of a history: the room's own code, on a database and a payment provider that fail as the history says. */

import type { Plan } from '../../src/catalog/plan.ts'
import type { Database, Queryable, Transaction } from '../../src/infra/postgres/database.ts'
import { refuse } from '../../src/lib/errors.ts'
import type { RandomBytes } from '../../src/lib/ids.ts'
import type { Clock } from '../../src/lib/time.ts'
import { mendAutoPay } from '../../src/payments/autoPay/mend.ts'
import type { PaymentProvider } from '../../src/payments/provider/provider.ts'
import type { SubscriptionRefreshDependencies } from '../../src/payments/subscriptions/refresh.ts'
import type { Seeded } from '../faults/seeded.ts'
import { SILENCE } from '../silence.ts'
import { Killed, type Turns } from './turns.ts'

/** How often, in a hundred times, something fails. */
export interface Troubles {
  /** The payment provider is asked in vain, and nothing happens. */
  refusals: number
  /** It does what it was asked to do, and its answer is lost. */
  lostAnswers: number
  /** A statement fails before it has an effect, or a transaction before its commit. */
  failedStatements: number
  /** The answer of a statement or a commit is lost. */
  lostCommits: number
  /** The process is killed in the middle of a transaction. */
  deadTransactions: number
}

export interface Surroundings {
  readonly database: Database
  readonly provider: PaymentProvider
  readonly turns: Turns
  readonly random: Seeded
  readonly randomBytes: RandomBytes
  readonly troubles: Troubles
  readonly plans: readonly Plan[]
  /** Of the world, milliseconds since the epoch. */
  readonly nowMs: () => number
}

/** Those that come in pages. */
const LISTS: ReadonlySet<string | symbol> = new Set([
  'listCheckouts',
  'listReversals',
  'listAutoPayments',
  'listEvents',
])

/** Of the first page of a list. */
const PAGE = 3

const LOST = 'the connection was closed, and nobody knows what became of it'

export class SimulatedProcess {
  isDead = false
  /** Its clock is so far ahead of the world's. */
  skewMs = 0
  /** By its own clock. */
  readonly startedAtMs: number
  private readonly around: Surroundings
  readonly dependencies: SubscriptionRefreshDependencies

  constructor(around: Surroundings) {
    this.around = around
    this.startedAtMs = around.nowMs()
    const clock: Clock = {
      now: () => around.nowMs() + this.skewMs,
      monotonicMs: around.nowMs,
      // Nothing of the room waits for an instant.
      after: () => () => {},
    }
    this.dependencies = {
      database: this.database(),
      clock,
      random: around.randomBytes,
      provider: this.provider(),
      log: SILENCE,
      plans: () => around.plans,
      onMethodSaved: mendAutoPay(clock),
    }
  }

  /** Nothing of it goes on. The database rolls back what it had not committed. */
  kill(): void {
    this.isDead = true
    this.around.turns.kill(this)
  }

  private database(): Database {
    const { database, turns, random, troubles } = this.around
    return {
      query: async (text, parameters) => {
        await this.begin()
        if (random.percent(troubles.failedStatements)) throw new Error('the connection was closed')
        const rows = await turns.outside(() => database.query<never>(text, parameters))
        await this.goOn()
        if (random.percent(troubles.lostCommits)) throw new Error(LOST)
        return rows
      },
      transaction: async (work) => {
        await this.begin()
        const result = await this.transact(work)
        await this.goOn()
        if (random.percent(troubles.lostCommits)) throw new Error(LOST)
        return result
      },
      close: async () => {},
    }
  }

  private async transact<T>(work: (tx: Transaction) => Promise<T>): Promise<T> {
    const { database, turns, random, troubles } = this.around
    const fails = random.percent(troubles.failedStatements)
    let untilDeath = random.percent(troubles.deadTransactions) ? random.between(1, 6) : Number.POSITIVE_INFINITY
    const step = async () => {
      if (turns.isLoose) await turns.wait(this, true)
      untilDeath -= 1
      if (untilDeath === 0) this.kill()
      if (this.isDead) throw new Killed()
    }
    try {
      return await turns.outside(() =>
        database.transaction(async (tx) => {
          const query: Queryable['query'] = async (text, parameters) => {
            await step()
            return tx.query(text, parameters)
          }
          const result = await work({ ...tx, query, isTransaction: true })
          await step()
          if (fails) throw new Error('the connection was closed')
          return result
        }),
      )
    } catch (error) {
      if (error instanceof Killed) return never()
      throw error
    }
  }

  private provider(): PaymentProvider {
    const { provider, random, troubles } = this.around
    const ask = async (work: () => Promise<unknown>) => {
      await this.begin()
      if (random.percent(troubles.refusals))
        return refuse('payment-source-unavailable', 'The payment provider is away.')
      const answer = await work()
      // The answer is under way; others may do something meanwhile.
      await this.begin()
      if (random.percent(troubles.lostAnswers)) return refuse('payment-source-unavailable', 'The answer was lost.')
      return answer
    }
    /** A list is asked for in two pages. */
    const listed = async function* (list: () => AsyncIterable<unknown>) {
      const all = async () => Array.fromAsync(list())
      const first = ((await ask(all)) as unknown[]).slice(0, PAGE)
      yield* first
      if (first.length === PAGE) yield* ((await ask(all)) as unknown[]).slice(PAGE)
    }
    return new Proxy(provider, {
      get(target, name) {
        const found = Reflect.get(target, name)
        if (typeof found !== 'function') return found
        if (LISTS.has(name)) return (...words: unknown[]) => listed(() => found.apply(target, words))
        return (...words: unknown[]) => ask(() => found.apply(target, words))
      },
    })
  }

  private async begin(): Promise<void> {
    await this.goOn()
    await this.around.turns.wait(this)
  }

  /** A dead process does nothing more. */
  private goOn(): Promise<void> {
    return this.isDead ? never() : Promise.resolve()
  }
}

function never(): Promise<never> {
  return new Promise(() => {})
}
