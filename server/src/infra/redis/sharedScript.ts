import type { Log } from '../../lib/log.ts'
import { type Clock, MINUTE_MS } from '../../lib/time.ts'
import type { ConnectRedis, RedisConnection } from './connection.ts'
import { Lateness } from './lateness.ts'

/** One operation of the script: the key that it is about, and its words. */
interface Operation {
  readonly key: string
  readonly words: readonly string[]
}

type Answer = readonly number[]

/** A script in Redis or Valkey that many processes run. Never rejects: who asks does without while the store is away. */
export interface SharedScript {
  /**
   * Runs an operation and returns the script's answer. Null while the store is away or late: those who are the first
   * to find out have waited as long as its answers usually take, at most 20 ms, and nobody after them waits at all.
   * A late store still carries out what it was asked. Null too where the key holds a value that is not the script's.
   */
  run(operation: Operation): Promise<Answer | null> | null
  readonly isAway: boolean
  close(): void
}

export interface SharedScriptOptions {
  readonly url: string
  /**
   * Takes operations in `KEYS` and `ARGV`, in their order, and answers with a list of numbers for each; an empty one where the key
   * holds a value that is not the script's.
   */
  readonly script: string
  /** Shows that the script works; run on each new connection. */
  readonly probe: Operation
  readonly connect: ConnectRedis
  readonly clock: Clock
  readonly log: Log
  /** The store answers, for the first time or again. */
  readonly onReady: () => void
}

/** While it is away it is asked so often, in the background, so that limits hold again within a second. */
const PROBE_INTERVAL_MS = 250
const CONNECT_TIMEOUT_MS = 500
/** Calls of the script that wait for their answer; what comes meanwhile goes with the next one, together. */
const CALLS_UNDER_WAY = 2
/** Operations of one call: about a millisecond of Redis's time. */
const OPERATIONS_A_CALL = 200
/** Keys with a value of somebody else are said so often: each call of a customer may meet one. */
const FOREIGN_SAID_EVERY_MS = MINUTE_MS
/** Operations that wait; beyond them the store counts as away for who asks. */
const WAITING_MAX = 10_000

interface Waiting {
  readonly operation: Operation
  readonly answer: (answer: Answer | null) => void
}

/** Opens it. Until the store has answered for the first time it counts as away. */
export function openSharedScript(options: SharedScriptOptions): SharedScript {
  const script = new Script(options)
  void script.open()
  return script
}

class Script implements SharedScript {
  private readonly options: SharedScriptOptions
  private readonly lateness: Lateness
  private store: { readonly connection: RedisConnection; readonly hash: string } | null = null
  private readonly waiting: Waiting[] = []
  /** Batches that were sent and not answered, oldest first. */
  private readonly underWay: (readonly Waiting[])[] = []
  private isClosed = false
  private cancelProbe = () => {}
  private wasReported = false
  private foreignSaidAtMs = Number.NEGATIVE_INFINITY

  constructor(options: SharedScriptOptions) {
    this.options = options
    const onLost = (error: unknown) => {
      if (this.store !== null) this.lose(this.store.connection, error)
    }
    this.lateness = new Lateness(options.clock, () => this.excuseAll(), onLost)
  }

  get isAway(): boolean {
    return this.store === null
  }

  run(operation: Operation): Promise<Answer | null> | null {
    if (this.store === null || this.waiting.length >= WAITING_MAX) return null
    if (this.lateness.isLate) {
      this.waiting.push({ operation, answer: () => {} })
      this.send()
      return null
    }
    const answered = new Promise<Answer | null>((answer) => this.waiting.push({ operation, answer }))
    this.send()
    return answered
  }

  close(): void {
    this.isClosed = true
    this.cancelProbe()
    if (this.store !== null) this.lose(this.store.connection, null)
  }

  /** Tries to reach the store, and again after a while until it answers. Never rejects. */
  async open(): Promise<void> {
    const { connect, url, script, probe, clock, log, onReady } = this.options
    let connection: RedisConnection | null = null
    try {
      connection = await connect(url, CONNECT_TIMEOUT_MS)
      const loading = connection.send('SCRIPT', ['LOAD', script])
      const hash = String(await withDeadline(clock, CONNECT_TIMEOUT_MS, loading))
      const probing = connection.send('EVALSHA', wordsOf(hash, [probe]))
      const probed = await withDeadline(clock, CONNECT_TIMEOUT_MS, probing)
      if (isListOf(probed, 1) && probed[0]?.length === 0) throw new Error(foreign(probe.key))
      if (this.isClosed) return connection.close()
      this.store = { connection, hash }
      if (this.wasReported) log.info({}, 'the store of rate limits answers again')
      this.wasReported = false
      onReady()
    } catch (error) {
      connection?.close()
      if (!this.isClosed) this.openLater(error)
    }
  }

  private openLater(error: unknown): void {
    if (!this.wasReported) {
      this.wasReported = true
      const { log } = this.options
      log.warn({ err: nameOf(error) }, 'the store of rate limits is away: requests are let through until it is back')
    }
    this.cancelProbe = this.options.clock.after(PROBE_INTERVAL_MS, () => void this.open())
  }

  private lose(lost: RedisConnection, error: unknown): void {
    if (this.store?.connection !== lost) return
    this.store = null
    this.excuseAll()
    this.underWay.length = 0
    this.waiting.length = 0
    this.lateness.end()
    lost.close()
    if (!this.isClosed) this.openLater(error)
  }

  /** Lets everybody go on without an answer. */
  private excuseAll(): void {
    for (const batch of this.underWay) for (const { answer } of batch) answer(null)
    for (const { answer } of this.waiting) answer(null)
  }

  private send(): void {
    while (this.store !== null && this.underWay.length < CALLS_UNDER_WAY && this.waiting.length > 0) {
      const batch = this.waiting.splice(0, OPERATIONS_A_CALL)
      if (this.underWay.length === 0) this.lateness.begin()
      this.underWay.push(batch)
      void this.call(this.store.connection, this.store.hash, batch)
    }
    if (this.underWay.length === 0) this.lateness.end()
  }

  /** Says in the log, once a minute, that a key holds a value that is not the script's. */
  private noteForeign(key: string): void {
    const { clock, log } = this.options
    if (clock.monotonicMs() - this.foreignSaidAtMs < FOREIGN_SAID_EVERY_MS) return
    this.foreignSaidAtMs = clock.monotonicMs()
    log.warn({ key }, `${foreign(key)}: requests that need it are let through`)
  }

  private async call(connection: RedisConnection, hash: string, batch: readonly Waiting[]): Promise<void> {
    const { clock } = this.options
    const sentAtMs = clock.monotonicMs()
    const operations = batch.map(({ operation }) => operation)
    try {
      const answers = await connection.send('EVALSHA', wordsOf(hash, operations))
      // The answer of a connection that was given up by now is nobody's.
      if (this.store?.connection !== connection) return
      if (!isListOf(answers, batch.length)) throw new Error('the script answered something else')
      for (const [index, { operation, answer }] of batch.entries()) {
        const own = answers[index] ?? []
        if (own.length === 0) this.noteForeign(operation.key)
        answer(own.length === 0 ? null : own)
      }
      this.lateness.note(clock.monotonicMs() - sentAtMs)
      this.underWay.splice(this.underWay.indexOf(batch), 1)
      this.send()
    } catch (error) {
      this.lose(connection, error)
    }
  }
}

function foreign(key: string): string {
  return `the key "${key}" in the store of rate limits holds a value of another type: delete it there`
}

function wordsOf(hash: string, operations: readonly Operation[]): string[] {
  return [
    hash,
    `${operations.length}`,
    ...operations.map(({ key }) => key),
    ...operations.flatMap(({ words }) => words),
  ]
}

function isListOf(answers: unknown, length: number): answers is Answer[] {
  return Array.isArray(answers) && answers.length === length && answers.every(Array.isArray)
}

function withDeadline<T>(clock: Clock, timeoutMs: number, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(timeoutMs, () => reject(new Error(`no answer within ${timeoutMs} ms`)))
    work.then(resolve, reject).finally(cancel)
  })
}

/** The address of the store may hold a password, and a client's words may quote it: only our own words and its code. */
function nameOf(error: unknown): Error {
  if (error instanceof Error && 'code' in error) return new Error(String(error.code))
  return error instanceof Error && error.constructor === Error ? error : new Error('the connection failed')
}
