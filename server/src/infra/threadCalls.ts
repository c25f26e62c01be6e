/** Work in a thread of its own, called like a function. */

import { constants, getPriority, setPriority } from 'node:os'
import { parentPort, type Transferable, Worker } from 'node:worker_threads'
import type { Log } from '../lib/log.ts'

export interface ThreadCalls<Task, Answer> {
  /** Calls that were made and have not been answered: as many as callers make, none is refused. */
  readonly waiting: number
  /**
   * Rejects when the thread fails before it has answered, or is ended. `moved` is memory of the task that is handed over instead
   * of copied: nobody here may use it afterwards.
   */
  call(task: Task, moved?: readonly Transferable[]): Promise<Answer>
  /** Ends the thread; what waits for it is rejected. */
  close(): Promise<void>
}

export interface ThreadCallsOptions {
  /** The module that runs in the thread and calls {@link answerCalls}. */
  readonly file: URL
  /** The message of the log when the thread fails. */
  readonly failed: string
  readonly log: Log
}

interface Asked<Task> {
  readonly id: number
  readonly task: Task
}

interface Answered<Answer> {
  readonly id: number
  readonly answer: Answer
}

interface Waiting<Answer> {
  resolve(answer: Answer): void
  reject(error: unknown): void
}

/**
 * Calls to one thread, started when first needed. When it fails, so do all calls that it was given, and the next one starts
 * another thread.
 */
export function createThreadCalls<Task, Answer>({ file, failed, log }: ThreadCallsOptions): ThreadCalls<Task, Answer> {
  const waiting = new Map<number, Waiting<Answer>>()
  let worker: Worker | null = null
  let nextId = 0

  const giveUp = (error: unknown) => {
    worker = null
    for (const { reject } of waiting.values()) reject(error)
    waiting.clear()
  }
  const start = (): Worker => {
    const started = new Worker(file)
    const fail = (error: unknown) => {
      if (worker !== started) return
      log.error({ err: error, waiting: waiting.size }, failed)
      giveUp(error)
    }
    started.on('message', ({ id, answer }: Answered<Answer>) => {
      waiting.get(id)?.resolve(answer)
      waiting.delete(id)
    })
    started.on('error', fail)
    started.on('exit', (code) => fail(new Error(`it ended with code ${code}`)))
    // It has nothing to say unless it is asked, so it keeps no process alive.
    started.unref()
    return started
  }
  return {
    get waiting() {
      return waiting.size
    },
    call(task, moved = []) {
      worker ??= start()
      const asked = worker
      const id = nextId++
      return new Promise((resolve, reject) => {
        // First this, which throws for what can't be sent.
        asked.postMessage({ id, task } satisfies Asked<Task>, moved)
        waiting.set(id, { resolve, reject })
      })
    },
    async close() {
      const ending = worker
      giveUp(new Error('the thread was ended'))
      await ending?.terminate()
    },
  }
}

/** How far threads stand behind the event loop, as nice(2) counts. */
const BEHIND = 5

/** The event loop answers everybody; a thread works for one. Elsewhere than on Linux a priority is the whole process's. */
function standBehindEventLoop(): void {
  if (process.platform === 'linux') setPriority(0, Math.min(getPriority(0) + BEHIND, constants.priority.PRIORITY_LOW))
}

/** Collects the garbage of the calling thread once what it does now is done. */
export function collectGarbageSoon(): void {
  setImmediate(() => Bun.gc(true))
}

/** An answer, and the memory of it that is moved to the caller instead of copied. */
export interface Done<Answer> {
  readonly answer: Answer
  readonly moved?: Transferable[]
}

/** In the thread: answers every call with what `work` makes of its task. Where that throws or rejects, the thread fails. */
export function answerCalls<Task, Answer>(work: (task: Task) => Done<Answer> | Promise<Done<Answer>>): void {
  standBehindEventLoop()
  parentPort?.on('message', async ({ id, task }: Asked<Task>) => {
    const { answer, moved = [] } = await work(task)
    parentPort?.postMessage({ id, answer } satisfies Answered<Answer>, moved)
  })
}
