/**
 * Looks at accounts that refused a call a moment ago. A renewal locks the account's row and writes it; where many processes refuse
 * call after call of an empty account, they would stand in line for that row. A look only reads.
 */

import { type Clock, SECOND_MS, within } from '../../lib/time.ts'
import { type Figures, firstInsufficient, GATES, type Gate, headroomOf } from './gates.ts'

/** So long after a refusal an account is looked at before it is asked: its next calls are mostly refused too. */
export const LOOKS_AFTER_REFUSAL_MS = SECOND_MS
/** Accounts that are looked at at once. Beyond it they are asked, many by one statement. */
const LOOKS_AT_ONCE = 4
/** A look that takes longer says nothing. */
const LOOK_MOST_MS = SECOND_MS / 2

/** Reads the figures of an account at an instant; null: there is none. */
export type ReadFigures = (organizationId: string, nowMs: number) => Promise<Figures | null>

interface Looking {
  readonly figures: Promise<Figures | null>
  /** For those who came while that was under way: it may not see what was committed just before they came. */
  next: Promise<Figures | null> | null
}

export class Looks {
  private readonly clock: Clock
  private readonly readFigures: ReadFigures
  private readonly underWay = new Map<string, Looking>()

  constructor(clock: Clock, readFigures: ReadFigures) {
    this.clock = clock
    this.readFigures = readFigures
  }

  /**
   * Returns the gate that leaves less than is needed, in micro-cents, whatever comes back from calls under way; it was so after the
   * look was asked for. Null: no gate does, or that could not be told soon. Never rejects.
   */
  async gateBelow(organizationId: string, neededMicrocents: bigint): Promise<Gate | null> {
    if (!this.underWay.has(organizationId) && this.underWay.size >= LOOKS_AT_ONCE) return null
    const figures = await within(this.clock, LOOK_MOST_MS, this.look(organizationId), null)
    if (figures === null) return null
    return firstInsufficient(headroomOf({ ...figures, sharesMicrocents: 0n }), 0n, neededMicrocents, GATES)
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
