/**
 * Looks at accounts that left too little for a call a moment ago. A renewal locks the account's row and writes it; where many processes
 * refuse call after call of an empty account, or wait for the last of it, they would stand in line for that row. A look only reads.
 */

import { largest } from '../../lib/money.ts'
import { type Clock, SECOND_MS, within } from '../../lib/time.ts'
import { type Figures, firstInsufficient, GATES, type Gate, headroomOf, type WorstCase } from './gates.ts'
import type { Share } from './share.ts'

/** So long after it left too little an account is looked at before it is asked: its next calls mostly find too little too. */
const LOOKS_FIRST_MS = SECOND_MS
/** Accounts that are looked at at once. Beyond it they are asked, many by one statement. */
const LOOKS_AT_ONCE = 4
/** A look that takes longer says nothing. */
const LOOK_MOST_MS = SECOND_MS / 2

/** Reads the figures of an account at an instant; null: there is none. */
export type ReadFigures = (organizationId: string, nowMs: number) => Promise<Figures | null>

/** A gate that leaves too little whatever comes back; or that it is worth asking the account; or worth waiting for others to give back. */
export type Seen = Gate | 'ask' | 'wait'

interface Looking {
  readonly figures: Promise<Figures | null>
  /** For those who came while that was under way: it may not see what was committed just before they came. */
  next: Promise<Figures | null> | null
}

/** The part of a share that is in the books as granted and not spent. */
function unspentOf({ grantedMicrocents, postedMicrocents }: Share): bigint {
  return largest(grantedMicrocents - postedMicrocents, 0n)
}

export class Looks {
  private readonly clock: Clock
  private readonly readFigures: ReadFigures
  private readonly underWay = new Map<string, Looking>()

  constructor(clock: Clock, readFigures: ReadFigures) {
    this.clock = clock
    this.readFigures = readFigures
  }

  /** Returns whether the account left too little so lately that it is to be looked at before it is asked. */
  isDue({ shortAtMs }: Share): boolean {
    return this.clock.monotonicMs() - shortAtMs < LOOKS_FIRST_MS
  }

  /**
   * Returns what the account has for a call that finds too little in the share; it was so after the look was asked for. `ask` too where
   * that could not be told soon. Never rejects.
   */
  async see(share: Share, { wholeMicrocents, firstStepMicrocents }: WorstCase): Promise<Seen> {
    const { organizationId } = share
    if (!this.underWay.has(organizationId) && this.underWay.size >= LOOKS_AT_ONCE) return 'ask'
    const ownBefore = unspentOf(share)
    const figures = await within(this.clock, LOOK_MOST_MS, this.look(organizationId), null)
    if (figures === null) return 'ask'
    const gate = firstInsufficient(headroomOf({ ...figures, sharesMicrocents: 0n }), 0n, firstStepMicrocents, GATES)
    if (gate !== null) return gate
    const neededMicrocents = wholeMicrocents - share.spendableMicrocents
    const isThere = firstInsufficient(headroomOf(figures), 0n, neededMicrocents, GATES) === null
    // The shares that were read may still have what was posted here meanwhile.
    const isElsewhere = figures.sharesMicrocents > largest(ownBefore, unspentOf(share))
    return isThere || !isElsewhere ? 'ask' : 'wait'
  }

  /** Begins a look, or joins the next one. */
  private look(organizationId: string): Promise<Figures | null> {
    const looking = this.underWay.get(organizationId)
    if (looking === undefined) return this.begin(organizationId)
    looking.next ??= looking.figures.then(() => this.begin(organizationId))
    return looking.next
  }

  private begin(organizationId: string): Promise<Figures | null> {
    const figures = this.readFigures(organizationId, this.clock.now()).catch(() => null)
    const looking: Looking = { figures, next: null }
    this.underWay.set(organizationId, looking)
    void figures.then(() => {
      if (looking.next === null && this.underWay.get(organizationId) === looking) this.underWay.delete(organizationId)
    })
    return figures
  }
}
