/**
 * Work on bodies. Large ones have a thread of their own: one body at a time, so that no more than one takes the memory and the time
 * of being worked on, and organizations in turn, so that none waits for all bodies of another. Small ones are worked on by the
 * caller, in turns.
 */

import { createThreadCalls } from '../infra/threadCalls.ts'
import type { Log } from '../lib/log.ts'
import type { Result } from '../lib/result.ts'
import { type Clock, SECOND_MS } from '../lib/time.ts'
import { createBodyTurns } from './bodyTurns.ts'
import type { Form } from './form.ts'
import type { Compression, inflate } from './inflate.ts'
import { LARGE_BODY_BYTES } from './limits/bodyMemory.ts'

/** A task of the thread of large bodies. The bytes are moved to the thread, not copied. */
export type BodyTask =
  | { readonly kind: 'parse'; readonly bytes: Uint8Array<ArrayBuffer> }
  | {
      readonly kind: 'parseForm'
      readonly bytes: Uint8Array<ArrayBuffer>
      readonly contentType: string
      readonly partsMost: number
    }
  | {
      readonly kind: 'inflate'
      readonly bytes: Uint8Array<ArrayBuffer>
      readonly compression: Compression
      readonly mostBytes: number
    }

/** A parsed body, and its bytes in other memory than they came in. */
interface Parsed<Value> {
  readonly parsed: Result<Value>
  readonly bytes: Uint8Array<ArrayBuffer>
}

/** The thread's answer to a task: the parsed body and its bytes, or the inflated body. */
export type BodyAnswer =
  | Parsed<unknown>
  | { readonly form: Parsed<Form> }
  | { readonly inflated: ReturnType<typeof inflate> }

export interface BodyWork {
  /** Bodies that the thread works on or that wait for that. */
  readonly waiting: number
  /** Asks for a turn to parse a small body, or a piece of a large one, on the main thread ({@link createBodyTurns}). */
  readonly takeTurn: (owner: string, bytes: number) => Promise<void> | null
  /** Parses JSON. Gives the bytes back, in other memory: those that were given are gone. Rejects when the thread fails. */
  parse(owner: string, bytes: Uint8Array<ArrayBuffer>): Promise<Parsed<unknown>>
  /** The same for a multipart form, as `form.ts` does. */
  parseForm(
    owner: string,
    bytes: Uint8Array<ArrayBuffer>,
    contentType: string,
    partsMost: number,
  ): Promise<Parsed<Form>>
  /** Decompresses as `inflate.ts` does. The bytes that were given are gone. Rejects when the thread fails. */
  inflate(
    owner: string,
    bytes: Uint8Array<ArrayBuffer>,
    compression: Compression,
    mostBytes: number,
  ): Promise<ReturnType<typeof inflate>>
  /** Notes that nobody paid for the work on a body of so many bytes: its owner's next ones wait for that ({@link createOwnerTurns}). */
  noteUnpaid(owner: string, bytes: number): void
  /** Ends the thread; what waits for it is rejected. */
  close(): Promise<void>
}

const ANOTHER_QUESTION = 'the thread of large bodies answered another question'

export function createBodyWork(log: Log, clock: Clock): BodyWork {
  const file = new URL('./bodyThread.ts', import.meta.url)
  const thread = createThreadCalls<BodyTask, BodyAnswer>({ file, failed: 'the thread of large bodies failed', log })
  const turns = createOwnerTurns(clock)
  // A decompressed body has its memory already: it is parsed before another body of its owner is decompressed.
  const call = (owner: string, task: BodyTask) =>
    turns.take(owner, task.kind !== 'inflate', () => thread.call(task, [task.bytes.buffer]))
  return {
    get waiting() {
      return turns.waiting
    },
    takeTurn: createBodyTurns().take,
    async parse(owner, bytes) {
      const answer = await call(owner, { kind: 'parse', bytes })
      if ('parsed' in answer) return answer
      throw new Error(ANOTHER_QUESTION)
    },
    async parseForm(owner, bytes, contentType, partsMost) {
      const answer = await call(owner, { kind: 'parseForm', bytes, contentType, partsMost })
      if ('form' in answer) return answer.form
      throw new Error(ANOTHER_QUESTION)
    },
    async inflate(owner, bytes, compression, mostBytes) {
      const answer = await call(owner, { kind: 'inflate', bytes, compression, mostBytes })
      if ('inflated' in answer) return answer.inflated
      throw new Error(ANOTHER_QUESTION)
    },
    noteUnpaid(owner, bytes) {
      if (bytes > LARGE_BODY_BYTES) turns.rest(owner, bytes / UNPAID_BYTES_PER_MS)
    },
    close() {
      turns.close()
      return thread.close()
    },
  }
}

type Work = () => Promise<unknown>

/** The work of one owner, in its order: all that is urgent before all else. */
interface Line {
  readonly urgent: Work[]
  readonly others: Work[]
}

/**
 * Between two works is a pause, so many times as long as the work before it: values of a large body that come back from the thread
 * hold the event loop for some milliseconds, and calls of others need several of its turns. Without a pause, 40 bodies of 10,000
 * messages made another customer's call 40 ms longer.
 */
const PAUSES_BY_WORK = 2
const PAUSE_MOST_MS = 50

/**
 * An owner's large bodies that nobody pays for, such as prompts that are refused, are worked on at 2 MiB a second. Each leaves three
 * times its bytes as garbage on the main thread: 8 a second of 8 MB made another customer's slowest calls 20 to 30 ms longer.
 */
const UNPAID_BYTES_PER_MS = (2 << 20) / SECOND_MS
const REST_MOST_MS = 10 * SECOND_MS

/** Work that is done one after another, with pauses: owners in turn, but for those that rest. */
export function createOwnerTurns(clock: Clock) {
  const lines = new Map<string, Line>()
  /** Until when an owner rests, by the monotonic clock. */
  const rests = new Map<string, number>()
  let waiting = 0
  let isBusy = false
  let cancelAlarm = () => {}

  /** Returns the first line whose owner does not rest. Where all do, {@link next} is called when the first of them has rested. */
  const firstLine = (): [string, Line] | null => {
    cancelAlarm()
    const nowMs = clock.monotonicMs()
    let earliestMs = Number.POSITIVE_INFINITY
    for (const found of lines) {
      const untilMs = rests.get(found[0]) ?? nowMs
      if (untilMs <= nowMs) return found
      earliestMs = Math.min(earliestMs, untilMs)
    }
    if (earliestMs < Number.POSITIVE_INFINITY) cancelAlarm = clock.after(earliestMs - nowMs, next)
    return null
  }
  const next = (): void => {
    if (isBusy) return
    const first = firstLine()
    if (first === null) return
    const [owner, line] = first
    const work = line.urgent.shift() ?? line.others.shift()
    // An owner that has more stands behind all others now.
    lines.delete(owner)
    if (line.urgent.length + line.others.length > 0) lines.set(owner, line)
    isBusy = true
    const startedMs = clock.monotonicMs()
    void work?.().finally(() => {
      waiting -= 1
      const pauseMs = Math.min(PAUSES_BY_WORK * (clock.monotonicMs() - startedMs), PAUSE_MOST_MS)
      if (pauseMs > 0) clock.after(pauseMs, begin)
      else begin()
    })
  }
  const begin = () => {
    isBusy = false
    next()
  }
  return {
    get waiting() {
      return waiting
    },
    /** Begins no more work of owners that rest. */
    close: () => cancelAlarm(),
    /** Lets an owner rest for so long from now on, or from the end of its rest, but for 10 s from now at most. */
    rest(owner: string, restMs: number): void {
      const nowMs = clock.monotonicMs()
      for (const [each, untilMs] of rests) if (untilMs <= nowMs) rests.delete(each)
      rests.set(owner, Math.min((rests.get(owner) ?? nowMs) + restMs, nowMs + REST_MOST_MS))
    },
    /** Settles as `work` does, which begins when it is its turn. As many wait as callers let. */
    take<Value>(owner: string, isUrgent: boolean, work: () => Promise<Value>): Promise<Value> {
      return new Promise((resolve, reject) => {
        const line = lines.get(owner) ?? { urgent: [], others: [] }
        lines.set(owner, line)
        waiting += 1
        const own = isUrgent ? line.urgent : line.others
        own.push(() => Promise.resolve().then(work).then(resolve, reject))
        next()
      })
    },
  }
}
