import { largest, smallest } from '../../lib/money.ts'
import type { Share } from './share.ts'
import type { Want } from './wants.ts'

/** Accounts locked by one statement for calls: few enough that others never wait long for theirs. */
const CALLS_AT_ONCE = 500
/** Accounts beside them to which something is only given back: calls come before these, and wait for few of them. */
const GIVE_BACKS_AT_ONCE = 100

/** The purpose of a renewal. */
export interface Ask {
  /**
   * For a new call, for a running one, or only to give back what is idle here: since the account has changed, since somebody is short of
   * it, or since nobody here has used it for long.
   */
  readonly kind: 'admission' | 'extension' | 'give_back' | 'reclaim' | 'idle'
  /** Runs as soon as the share is up to date. Must not throw. */
  readonly take?: () => void
}

interface Asked {
  readonly ask: Ask
  readonly resolve: () => void
  readonly reject: (reason: unknown) => void
}

/** All that calls of one organization want of its account, for one renewal. */
class Renewal {
  readonly share: Share
  private readonly asked: Asked[] = []
  private admission = 0n
  private least: bigint | null = null
  private extension: bigint | null = null
  private givesBack = false

  constructor(share: Share) {
    this.share = share
  }

  add(microcents: bigint, ask: Ask): Promise<void> {
    if (ask.kind === 'extension') this.extension = (this.extension ?? 0n) + microcents
    else if (ask.kind === 'admission') {
      this.admission += microcents
      this.least = this.least === null ? microcents : smallest(this.least, microcents)
    } else this.givesBack = true
    this.share.beginAsk()
    return new Promise((resolve, reject) => this.asked.push({ ask, resolve, reject }))
  }

  /** True when nobody would have anything of it: others asked for what has gone meanwhile. */
  get isPointless(): boolean {
    return this.share.hasNothingToGive && this.asked.every(({ ask }) => ask.kind === 'reclaim')
  }

  /**
   * Returns the amounts that this share lacks. It uses its idle money first, or gives that back at once when others
   * are to have it: if the renewal seems to fail, it may have been carried out all the same, and others may have the
   * money.
   */
  want(): Want {
    const giveBack = this.givesBack ? this.share.takeIdle() : null
    const here = this.share.spendableMicrocents
    const extension = this.extension === null ? 0n : largest(this.extension - here, 0n)
    const beside = (admission: bigint) => largest(admission + (this.extension ?? 0n) - here, 0n) - extension
    const isAdmission = this.least !== null
    return {
      admission: isAdmission ? beside(this.admission) : 0n,
      least: beside(this.least ?? 0n),
      extension,
      giveBack,
    }
  }

  /** The share is up to date: runs every `take`, then resolves every promise. */
  finish(): void {
    const [running, others] = [this.asked.filter(isRunning), this.asked.filter((asked) => !isRunning(asked))]
    for (const { ask } of [...running, ...others]) ask.take?.()
    this.share.endAsks(this.asked.length)
    for (const { resolve } of this.asked) resolve()
  }

  /**
   * The account could not be asked. Money that was to be given back is not spent by the figures of before, since the limits may have changed:
   * it stays granted, and the next call asks.
   */
  fail(error: unknown): void {
    if (this.givesBack) this.share.takeIdle()
    this.share.loseAnswer()
    this.share.endAsks(this.asked.length)
    for (const { reject } of this.asked) reject(error)
  }
}

const isRunning = ({ ask }: Asked) => ask.kind === 'extension'

/** The lines in which organizations wait, the most urgent first. */
const LINES = ['call', 'give_back', 'idle'] as const
type Line = (typeof LINES)[number]

const LINE_OF: Readonly<Record<Ask['kind'], Line>> = {
  admission: 'call',
  extension: 'call',
  give_back: 'give_back',
  reclaim: 'give_back',
  idle: 'idle',
}

/**
 * The renewals that are asked for while one is under way: of each organization all at once, in the line of the most urgent of them.
 * Within a line who asked first comes first.
 */
export class RenewalQueue {
  private readonly lines: Record<Line, Map<string, Renewal>> = {
    call: new Map(),
    give_back: new Map(),
    idle: new Map(),
  }

  get size(): number {
    return LINES.reduce((sum, line) => sum + this.lines[line].size, 0)
  }

  add(share: Share, microcents: bigint, ask: Ask): Promise<void> {
    const { organizationId } = share
    const waiting = LINES.find((line) => this.lines[line].has(organizationId))
    const renewal = (waiting === undefined ? undefined : this.lines[waiting].get(organizationId)) ?? new Renewal(share)
    const line = LINE_OF[ask.kind]
    if (waiting === undefined || LINES.indexOf(line) < LINES.indexOf(waiting)) {
      if (waiting !== undefined) this.lines[waiting].delete(organizationId)
      this.lines[line].set(organizationId, renewal)
    }
    return renewal.add(microcents, ask)
  }

  /** The next to be asked for, and no longer in the queue: those of calls, and of the others a few. Those that are pointless are over. */
  next(): ReadonlyMap<string, Renewal> {
    const next = new Map<string, Renewal>()
    this.move('call', next, CALLS_AT_ONCE)
    const most = next.size + GIVE_BACKS_AT_ONCE
    this.move('give_back', next, most)
    this.move('idle', next, most)
    return next
  }

  failAll(error: unknown): void {
    for (const line of LINES) {
      const renewals = this.lines[line]
      this.lines[line] = new Map()
      for (const renewal of renewals.values()) renewal.fail(error)
    }
  }

  private move(line: Line, next: Map<string, Renewal>, most: number): void {
    const renewals = this.lines[line]
    for (const [organizationId, renewal] of renewals) {
      if (next.size >= most) return
      renewals.delete(organizationId)
      if (renewal.isPointless) renewal.finish()
      else next.set(organizationId, renewal)
    }
  }
}
