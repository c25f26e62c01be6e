import { randomBytes } from 'node:crypto'
import { resolve } from 'node:path'
import { doubledMs } from '../../lib/backoff.ts'
import type { Environment } from '../../lib/environment.ts'
import type { Log } from '../../lib/log.ts'
import { type Clock, MINUTE_MS, SECOND_MS } from '../../lib/time.ts'
import { ProviderFailure } from '../dialect/spec.ts'
import type { ChildReady } from './child.ts'
import { limitLines } from './lines.ts'
import { launchChild, type Running } from './process.ts'

/** The pause before a restart, doubled with each one that comes soon after another. */
const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 30 * SECOND_MS
/** A child that served for so long is a healthy one: its end starts the pauses anew. */
const HEALTHY_AFTER_MS = MINUTE_MS
/** The largest models on slow disks load within this; whatever takes longer is stuck. */
const LOAD_DEADLINE_MS = 10 * MINUTE_MS
/** How long a call waits for a restart before it is told that the engine is unavailable. */
const ADDRESS_WAIT_MS = 10 * SECOND_MS
/** A child that was asked to end and has not is killed. */
const STOP_DEADLINE_MS = 2 * SECOND_MS
/** Calls that may wait for each sequence. */
const WAITING_PER_SEQUENCE = 8

type GgufState = 'starting' | 'ready' | 'restarting' | 'closed'

export interface GgufAddress {
  /** Ends in `/v1`; speaks OpenAI's chat completions, streamed only. */
  readonly baseUrl: string
  readonly bearer: string
}

/** A GGUF model that is kept running. */
export interface GgufEngine {
  readonly file: string
  readonly state: GgufState
  /** The child's process id while there is one. */
  readonly pid: number | null
  /** Where it serves at this moment, or null. */
  current(): GgufAddress | null
  /**
   * Where it serves. While it starts, waits up to `waitMs` (10 s), then rejects with ProviderFailure `unavailable`.
   * A failed connection to the address means that the child has just died: ask again.
   */
  address(waitMs?: number): Promise<GgufAddress>
  /** Ends the child for good. Resolves when it is gone. */
  close(): Promise<void>
}

export interface GgufOptions {
  readonly file: string
  /** Answers generated at once, at least 1; each has a context of its own, in memory all the time. */
  readonly sequences: number
  /** Context of each sequence; left out, the model's own up to 8192 tokens. */
  readonly contextTokens?: number
  /** CPU threads; left out, all cores but one. */
  readonly threads?: number
  /** `auto` (left out) takes the best GPU that there is; `none` stays on the CPU. */
  readonly gpu?: 'auto' | 'none'
  /** This process's environment; the child inherits only what drivers need of it. */
  readonly environment?: Environment
  readonly clock: Clock
  readonly log: Log
}

/** Starts a child process for a GGUF file and starts it again whenever it ends, until closed. Returns at once. */
export function startGguf(options: GgufOptions): GgufEngine {
  const { sequences, clock, log } = options
  // The child runs in another folder.
  const file = resolve(options.file)
  const bearer = randomBytes(32).toString('base64url')
  const settings = {
    file,
    sequences,
    maximumWaiting: sequences * WAITING_PER_SEQUENCE,
    contextTokens: options.contextTokens ?? null,
    threads: options.threads ?? null,
    gpu: options.gpu ?? 'auto',
    bearer,
  }
  const onLine = limitLines(clock, (line) => log.info({ file, line }, 'the GGUF engine says'))
  return supervise({ file, bearer, clock, log, launch: () => launchChild(settings, options.environment ?? {}, onLine) })
}

interface SuperviseOptions {
  readonly file: string
  readonly bearer: string
  readonly clock: Clock
  readonly log: Log
  readonly launch: () => Running
}

/** {@link startGguf} over any way of launching a child. */
export function supervise(options: SuperviseOptions): GgufEngine {
  const supervisor = new Supervisor(options)
  supervisor.start()
  return supervisor
}

class Supervisor implements GgufEngine {
  state: GgufState = 'starting'
  private readonly options: SuperviseOptions
  private child: Running | null = null
  private serving: GgufAddress | null = null
  private failures = 0
  private cancelRestart = () => {}
  private waiters = new Set<() => void>()

  constructor(options: SuperviseOptions) {
    this.options = options
  }

  get file(): string {
    return this.options.file
  }

  get pid(): number | null {
    return this.child?.pid ?? null
  }

  current(): GgufAddress | null {
    return this.serving
  }

  address(waitMs = ADDRESS_WAIT_MS): Promise<GgufAddress> {
    return new Promise((resolve, reject) => {
      const settle = () => {
        this.waiters.delete(settle)
        cancel()
        if (this.serving !== null) resolve(this.serving)
        else
          reject(
            new ProviderFailure('unavailable', `the engine of ${this.file} is ${this.state}`, {
              mayFailOver: true,
              retryAfterSeconds: 1,
              mayAskAgain: true,
            }),
          )
      }
      const isSettled = this.serving !== null || this.state === 'closed'
      const cancel = isSettled ? () => {} : this.options.clock.after(waitMs, settle)
      if (isSettled) settle()
      else this.waiters.add(settle)
    })
  }

  async close(): Promise<void> {
    this.cancelRestart()
    this.serving = null
    this.state = 'closed'
    this.wake()
    const { child } = this
    if (child === null) return
    child.stop()
    const cancel = this.options.clock.after(STOP_DEADLINE_MS, () => child.kill())
    await child.exited
    cancel()
  }

  start(): void {
    const { clock, file, log } = this.options
    const child = this.options.launch()
    this.child = child
    const cancelDeadline = clock.after(LOAD_DEADLINE_MS, () => {
      log.error({ file, deadlineMs: LOAD_DEADLINE_MS }, 'the GGUF engine did not load in time and is ended')
      child.kill()
    })
    let readyAtMs: number | null = null
    child.ready.then((ready) => {
      cancelDeadline()
      if (this.state === 'closed' || this.child !== child) return
      readyAtMs = clock.monotonicMs()
      this.onReady(ready)
    })
    child.exited.then((how) => {
      cancelDeadline()
      this.child = null
      const wasHealthy = readyAtMs !== null && clock.monotonicMs() - readyAtMs >= HEALTHY_AFTER_MS
      this.onExit(how, wasHealthy)
    })
  }

  private onReady({ port, contextTokens, device }: ChildReady): void {
    const { bearer, file, log } = this.options
    this.serving = { baseUrl: `http://127.0.0.1:${port}/v1`, bearer }
    this.state = 'ready'
    log.info({ file, device, contextTokens, pid: this.pid }, 'the GGUF engine is ready')
    this.wake()
  }

  private onExit(how: string, wasHealthy: boolean): void {
    this.serving = null
    if (this.state === 'closed') return
    const { clock, file, log } = this.options
    this.failures = wasHealthy ? 1 : this.failures + 1
    const pauseMs = pauseBeforeMs(this.failures)
    this.state = 'restarting'
    log.error({ file, how, failures: this.failures, pauseMs }, 'the GGUF engine ended and will be started again')
    this.cancelRestart = clock.after(pauseMs, () => this.start())
  }

  private wake(): void {
    for (const settle of [...this.waiters]) settle()
  }
}

/** The pause before the restart after `failures` failures in a row (at least 1). */
export function pauseBeforeMs(failures: number): number {
  return doubledMs(FIRST_PAUSE_MS, LONGEST_PAUSE_MS, failures - 1)
}
