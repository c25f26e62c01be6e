import type { Log } from '../../kernel/log.ts'
import type { Clock } from '../../kernel/time.ts'
import type { ConnectRedis, RedisConnection } from './connection.ts'

/** One operation of the script: the key that it is about, and its words. */
interface Operation {
  readonly key: string
  readonly words: readonly string[]
}

type Answer = readonly number[]

/** A script in Redis or Valkey that many processes run. Never rejects: who asks does without while the store is away. */
export interface SharedScript {
  /** What the script answers to an operation; null while the store is away, at once but for the first to find out. */
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

/** Who finds out that the store is away has waited this long, and nobody after them. A healthy one answers in 0.1 to 2 ms. */
const ANSWER_TIMEOUT_MS = 50
/** While it is away it is asked so often, in the background, so that limits hold again within a second. */
const PROBE_INTERVAL_MS = 250
const CONNECT_TIMEOUT_MS = 1_000
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
  let underWay = 0
  let isClosed = false
  let cancelProbe = () => {}
  let wasReported = false

  const lose = (lost: RedisConnection, error: unknown) => {
    if (store?.connection !== lost) return
    store = null
    underWay = 0
    lost.close()
    for (const { answer } of waiting.splice(0)) answer(null)
    if (isClosed) return
    report(error)
    cancelProbe = clock.after(PROBE_INTERVAL_MS, () => void open())
  }

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
    while (store !== null && underWay < CALLS_UNDER_WAY && waiting.length > 0) {
      const batch = waiting.splice(0, OPERATIONS_A_CALL)
      void call(store.connection, store.hash, batch)
    }
  }

  const call = async (connection: RedisConnection, hash: string, batch: readonly Waiting[]) => {
    underWay += 1
    try {
      const words = wordsOf(
        hash,
        batch.map(({ operation }) => operation),
      )
      const answers = await withDeadline(clock, ANSWER_TIMEOUT_MS, connection.send('EVALSHA', words))
      if (!isListOf(answers, batch.length)) throw new Error('the script answered something else')
      for (const [index, { answer }] of batch.entries()) answer(answers[index] ?? null)
      if (store?.connection !== connection) return
      underWay -= 1
      send()
    } catch (error) {
      for (const { answer } of batch) answer(null)
      lose(connection, error)
    }
  }

  void open()
  return {
    run(operation) {
      if (store === null || waiting.length >= WAITING_MAX) return null
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
