/** A gateway of `serve --processes`, as a child process. */

import type { ChildProcess } from 'node:child_process'
import { doubledMs } from '../lib/backoff.ts'
import type { Log } from '../lib/log.ts'
import { type Clock, SECOND_MS, sleep } from '../lib/time.ts'

/** The wait before a dead process is started again, doubled for each start in a row that came to nothing, and the longest. */
const RESTART_FIRST_MS = SECOND_MS
const RESTART_MOST_MS = 32 * SECOND_MS
const RESTARTS_MAX = 6

/** One of several processes: started again when it dies. `fail` is called when that is in vain. */
export class GatewayProcess {
  private readonly start: (isFirst: boolean) => ChildProcess
  private readonly index: number
  private readonly clock: Clock
  private readonly log: Log
  private readonly fail: (reason: string) => void
  private child: ChildProcess | null = null
  private ended: Promise<unknown> = Promise.resolve()
  private isStopping = false
  private startsInVain = 0

  constructor(
    start: (isFirst: boolean) => ChildProcess,
    index: number,
    clock: Clock,
    log: Log,
    fail: (reason: string) => void,
  ) {
    this.start = start
    this.index = index
    this.clock = clock
    this.log = log
    this.fail = fail
  }

  /** Starts it; resolves with what it prints once it serves. */
  run(isFirst: boolean): Promise<string> {
    if (this.isStopping) return new Promise(() => {})
    const child = this.start(isFirst)
    this.child = child
    this.ended = new Promise((resolve) => {
      child.once('exit', resolve)
      // One that could not be started never exits.
      child.once('error', resolve)
    })
    child.once('error', (error) => this.fail(`a gateway process can not be started: ${error.message}`))
    // A parent's writes never matter, a broken pipe neither.
    child.stdin?.on('error', () => {})
    let isServing = false
    child.once('exit', (code, signal) => {
      if (this.isStopping) return
      this.startsInVain = isServing ? 0 : this.startsInVain + 1
      if (this.startsInVain >= RESTARTS_MAX || (isFirst && !isServing)) {
        this.fail('a gateway process ends before it serves; the log says why')
        return
      }
      this.log.error({ process: this.index, code, signal }, 'a gateway process has ended; it is started again')
      void sleep(this.clock, doubledMs(RESTART_FIRST_MS, RESTART_MOST_MS, this.startsInVain)).then(() =>
        this.run(false),
      )
    })
    return new Promise((resolve) => {
      child.stdout?.on('data', (data) => {
        isServing = true
        resolve(String(data))
      })
    })
  }

  signal(name: NodeJS.Signals): void {
    if (name === 'SIGKILL') this.isStopping = true
    if (this.child?.exitCode === null && this.child.signalCode === null) this.child.kill(name)
  }

  /** Lets it end what it has open. */
  async stop(): Promise<void> {
    this.isStopping = true
    this.signal('SIGTERM')
    await this.ended
  }
}
