/** The loop that takes up due work and carries it out. Any number of processes may run one beside each other. */

import { doubledMs } from '../lib/backoff.ts'
import type { Log } from '../lib/log.ts'
import { type Clock, SECOND_MS, within } from '../lib/time.ts'
import { carryOut, type Ended, type JobOutcome, type Lease } from './carryOut.ts'

/** The longest pause between looks that fail in a row; short, so that work resumes soon after the database is back. */
const FAILED_PAUSE_MOST_MS = 5 * SECOND_MS

/** How long a stop waits for short work that is under way, and for what was aborted then: the usual figures of a runner. */
export const STOP_PATIENCE_MS = 5 * SECOND_MS
export const ABORTED_PATIENCE_MS = SECOND_MS

/** Counts what runners do. Kinds are names of ours, never a client's words. */
export interface RunnerMetrics {
  jobsClaimed(kind: string, count: number): void
  jobEnded(kind: string, outcome: Ended): void
}

/** An item that this process works on. */
export interface InWork<Item> {
  readonly kind: string
  readonly item: Item
}

interface Work<Item> extends InWork<Item> {
  readonly ended: Promise<void>
}

/** The means and the room with which a source claims items. */
export interface Claiming<Item> {
  /** At least 1; more items are not begun. */
  readonly room: number
  /** Everything that the runner works on, of all its sources. */
  readonly inWork: ReadonlySet<InWork<Item>>
  /** Aborts when the runner gives up what is still in work. */
  readonly stopping: AbortSignal
  /** Begins to work on an item that is claimed for this process. Call it as soon as that is so. Returns at once. */
  begin(item: Item): void
}

/** One kind of work: how items are claimed, and what is done with each. */
export interface Source<Item> {
  /** Names it in metrics and log lines. */
  readonly kind: string
  /** Items that this process works on at the same time, at most. */
  readonly atOnce: number
  /** Claims due items. Resolves to whether more may be due now, for which there was room. */
  claim(claiming: Claiming<Item>): Promise<boolean>
  /**
   * Carries an item out. `signal` aborts when the lease is lost and when the runner gives up; `stopping` in the second
   * case alone. May reject: that is logged, and the item is due again when its lease has run out.
   */
  work(item: Item, signal: AbortSignal, stopping: AbortSignal): Promise<JobOutcome>
  /** Returns whether the end of this item may make others due, so that the runner looks at once. Without it: no. */
  readonly makesDue?: (item: Item) => boolean
}

export interface RunnerOptions<Item> {
  readonly clock: Clock
  readonly log: Log
  /** Names the runner in log lines, such as `videos`. */
  readonly name: string
  /** Between two looks when nobody wakes it. */
  readonly pollMs: number
  /** The same after a look that found something: where there was work, there soon is more. Without it: `pollMs`. */
  readonly busyPollMs?: number
  /** How long {@link Runner.close} waits for what is in work before it aborts it. */
  readonly patienceMs: number
  /** How long it waits after that. Null: until all has ended, since each item bounds itself once it is aborted. */
  readonly abortedPatienceMs: number | null
  readonly sources: readonly Source<Item>[]
  /** Runs before each look. `skip`: nothing is claimed this time. `more`: it did not come to its end, look again. */
  readonly prepare?: () => Promise<'skip' | 'ready' | 'more'>
  /** How items are kept from other processes while they are in work. Without it the source's claim must outlast the work. */
  readonly lease?: Lease<Item>
  /** Names an item in log lines; never a secret. */
  readonly idOf: (item: Item) => string
  readonly metrics?: RunnerMetrics | undefined
}

export interface Runner {
  /** Begins to look for work, at once and then now and then. */
  start(): void
  /** There may be something due: looks at once, or once more when the look under way has ended. */
  wake(): void
  /** Looks until nothing more is due, and resolves when all that is in work by then has ended. */
  run(): Promise<void>
  /** Returns how many items of each kind are in work. */
  inWork(): ReadonlyMap<string, number>
  /** Claims nothing more; resolves when what is in work has ended, or was given up. */
  close(): Promise<void>
}

/** Makes a runner that is not started yet. Its looks never overlap. */
export function createRunner<Item>(options: RunnerOptions<Item>): Runner {
  const runner = new LookingRunner(options)
  return {
    start: () => runner.start(),
    wake: () => runner.wake(),
    run: () => runner.run(),
    inWork: () => runner.inWork(),
    close: () => runner.close(),
  }
}

class LookingRunner<Item> implements Runner {
  private readonly options: RunnerOptions<Item>
  private readonly stopping = new AbortController()
  private readonly works = new Set<Work<Item>>()
  /** Kinds whose last look ended for want of room: the end of one of them makes room for what is due. */
  private readonly full = new Set<string>()
  private looking: Promise<unknown> = Promise.resolve()
  private closing: Promise<void> | null = null
  private isStarted = false
  private isClosed = false
  private isAwake = false
  private failures = 0
  /** Items that the last look claimed. */
  private claimed = 0
  private endPause = () => {}

  constructor(options: RunnerOptions<Item>) {
    this.options = options
  }

  start(): void {
    if (this.isStarted) return
    this.isStarted = true
    void this.loop()
  }

  wake(): void {
    this.isAwake = true
    this.endPause()
  }

  async run(): Promise<void> {
    while (await this.look());
    await endOf(this.works)
  }

  inWork(): ReadonlyMap<string, number> {
    return new Map(this.options.sources.map(({ kind }) => [kind, count(this.works, kind)]))
  }

  close(): Promise<void> {
    this.closing ??= this.closeOnce()
    return this.closing
  }

  private async closeOnce(): Promise<void> {
    const { clock, patienceMs, abortedPatienceMs } = this.options
    this.isClosed = true
    this.wake()
    const ended = this.allEnded().then(() => true)
    if (await within(clock, patienceMs, ended, false)) return
    this.stopping.abort(new Error('the process stops'))
    await (abortedPatienceMs === null ? ended : within(clock, abortedPatienceMs, ended, false))
  }

  private async allEnded(): Promise<void> {
    // A look under way may still claim items: it is waited for first.
    await this.looking.catch(() => {})
    await endOf(this.works)
  }

  private async loop(): Promise<void> {
    const { log, name } = this.options
    while (!this.isClosed) {
      this.isAwake = false
      let isMore = false
      try {
        isMore = await this.look()
        this.failures = 0
      } catch (error) {
        this.failures += 1
        if (!this.isClosed) log.warn({ err: error, runner: name }, 'due work could not be claimed; tried again shortly')
      }
      if (!isMore && !this.isAwake && !this.isClosed) await this.pause()
    }
  }

  private pause(): Promise<void> {
    const { clock, pollMs: idlePollMs, busyPollMs = idlePollMs } = this.options
    const pollMs = this.claimed > 0 ? busyPollMs : idlePollMs
    return new Promise((resolve) => {
      const pauseMs = doubledMs(pollMs, Math.max(FAILED_PAUSE_MOST_MS, pollMs), this.failures)
      const cancelTimer = clock.after(pauseMs, resolve)
      this.endPause = () => {
        cancelTimer()
        resolve()
      }
    })
  }

  /** Looks once, after the look that is under way. Resolves to whether more may be due. */
  private look(): Promise<boolean> {
    const lookOnce = () => this.lookOnce()
    const next = this.looking.then(lookOnce, lookOnce)
    this.looking = next
    return next
  }

  private async lookOnce(): Promise<boolean> {
    if (this.isClosed) return false
    this.claimed = 0
    const prepared = (await this.options.prepare?.()) ?? 'ready'
    if (prepared === 'skip') return false
    let isMore = prepared === 'more'
    const errors: unknown[] = []
    for (const source of this.options.sources) {
      if (this.isClosed) return false
      // A kind that can't be claimed keeps no other waiting.
      const claimed = await this.claimFrom(source).catch((error: unknown) => void errors.push(error))
      isMore = claimed === true || isMore
    }
    if (errors.length > 0) throw errors[0]
    return isMore
  }

  private async claimFrom(source: Source<Item>): Promise<boolean> {
    const room = source.atOnce - count(this.works, source.kind)
    this.full.add(source.kind)
    if (room <= 0) return false
    let claimed = 0
    const claiming: Claiming<Item> = {
      room,
      inWork: this.works,
      stopping: this.stopping.signal,
      begin: (item) => {
        claimed += 1
        this.begin(source, item)
      },
    }
    try {
      const isMore = await source.claim(claiming)
      if (claimed < room) this.full.delete(source.kind)
      return isMore && claimed < room
    } finally {
      this.claimed += claimed
      if (claimed > 0) this.options.metrics?.jobsClaimed(source.kind, claimed)
    }
  }

  private begin(source: Source<Item>, item: Item): void {
    const ended = carryOut(this.options, source, item, this.stopping.signal).then((outcome) => {
      this.works.delete(work)
      this.options.metrics?.jobEnded(source.kind, outcome)
      if (this.full.has(source.kind) || source.makesDue?.(item) === true) this.wake()
    })
    const work = { kind: source.kind, item, ended }
    this.works.add(work)
  }
}

function count(works: ReadonlySet<InWork<unknown>>, kind: string): number {
  let counted = 0
  for (const work of works) if (work.kind === kind) counted += 1
  return counted
}

async function endOf(works: ReadonlySet<Work<unknown>>): Promise<void> {
  await Promise.all([...works].map(({ ended }) => ended))
}
