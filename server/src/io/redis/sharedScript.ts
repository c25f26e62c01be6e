import type { Log } from '../../kernel/log.ts'
import type { Clock } from '../../kernel/time.ts'
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
   * What the script answers to an operation. Null while the store is away or late: those who are the first to find out have
   * waited as long as its answers usually take, at most 20 ms, and nobody after them waits at all. What is asked of a late
   * store is done when it comes to it.
   */
  run(operation: Operation): Promise<Answer | null> | null
  readonly isAway: boolean
  close(): void
}

export interface SharedScriptOptions {
  readonly url: string
  /** Takes operations in `KEYS` and `ARGV`, in their order, and answers with a list of numbers for each. */
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
/** Operations that wait; beyond them the store counts as away for who asks. */
const WAITING_MAX = 10_000

interface Waiting {
  readonly operation: Operation
  readonly answer: (answer: Answer | null) => void
}

/** Opens it. Resolves nothing: until the store has answered it counts as away. */
export function openSharedScript(options: SharedScriptOptions): SharedScript {
  const { clock, log } = options
  let store: { readonly connection: RedisConnection; readonly hash: string } | null = null
  const waiting: Waiting[] = []
  /** Batches that were sent and not answered, oldest first. */
  const underWay: (readonly Waiting[])[] = []
  let isClosed = false
  let cancelProbe = () => {}
  let wasReported = false

  /** Lets everybody go on without an answer. */
  const excuseAll = () => {
    for (const batch of underWay) for (const { answer } of batch) answer(null)
    for (const { answer } of waiting) answer(null)
  }

  const lose = (lost: RedisConnection, error: unknown) => {
    if (store?.connection !== lost) return
    store = null
    excuseAll()
    underWay.length = 0
    waiting.length = 0
    lateness.end()
    lost.close()
    if (isClosed) return
    report(error)
    cancelProbe = clock.after(PROBE_INTERVAL_MS, () => void open())
  }

  const lateness = new Lateness(clock, excuseAll, (error) => {
    if (store !== null) lose(store.connection, error)
  })

  const report = (error: unknown) => {
    if (wasReported) return
    wasReported = true
    log.warn({ err: nameOf(error) }, 'the store of rate limits is away: requests are let through until it is back')
  }

  const open = async () => {
    let connection: RedisConnection | null = null
    try {
      connection = await options.connect(options.url, CONNECT_TIMEOUT_MS)
      const loading = connection.send('SCRIPT', ['LOAD', options.script])
      const hash = String(await withDeadline(clock, CONNECT_TIMEOUT_MS, loading))
      const probing = connection.send('EVALSHA', wordsOf(hash, [options.probe]))
      await withDeadline(clock, CONNECT_TIMEOUT_MS, probing)
      if (isClosed) return connection.close()
      store = { connection, hash }
      if (wasReported) log.info({}, 'the store of rate limits answers again')
      wasReported = false
      options.onReady()
    } catch (error) {
      connection?.close()
      if (isClosed) return
      report(error)
      cancelProbe = clock.after(PROBE_INTERVAL_MS, () => void open())
    }
  }

  const send = () => {
    while (store !== null && underWay.length < CALLS_UNDER_WAY && waiting.length > 0) {
      const batch = waiting.splice(0, OPERATIONS_A_CALL)
      if (underWay.length === 0) lateness.begin()
      underWay.push(batch)
      void call(store.connection, store.hash, batch)
    }
    if (underWay.length === 0) lateness.end()
  }

  const call = async (connection: RedisConnection, hash: string, batch: readonly Waiting[]) => {
    const sentAtMs = clock.monotonicMs()
    const operations = batch.map(({ operation }) => operation)
    try {
      const answers = await connection.send('EVALSHA', wordsOf(hash, operations))
      // What a connection that was given up answers by now is nobody's.
      if (store?.connection !== connection) return
      if (!isListOf(answers, batch.length)) throw new Error('the script answered something else')
      for (const [index, { answer }] of batch.entries()) answer(answers[index] ?? null)
      lateness.note(clock.monotonicMs() - sentAtMs)
      underWay.splice(underWay.indexOf(batch), 1)
      send()
    } catch (error) {
      lose(connection, error)
    }
  }

  void open()
  return {
    run(operation) {
      if (store === null || waiting.length >= WAITING_MAX) return null
      if (lateness.isLate) {
        waiting.push({ operation, answer: () => {} })
        send()
        return null
      }
      const answered = new Promise<Answer | null>((answer) => waiting.push({ operation, answer }))
      send()
      return answered
    },
    get isAway() {
      return store === null
    },
    close() {
      isClosed = true
      cancelProbe()
      if (store !== null) lose(store.connection, null)
    },
  }
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
