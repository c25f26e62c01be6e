import { refuse } from '../../../lib/errors.ts'

/** A hash of a password takes some 32 MiB and a core for a tenth of a second. */
const AT_ONCE = 4
/** They wait up to about three seconds; more would only time out. */
const WAITING_IN_ALL = 100
/** More than the 20 attempts that an address may make at once, and a quarter of all. */
const WAITING_IN_A_LINE = 25

/** Begins the work (true), or refuses it. */
type Answer = (isTurn: boolean) => void

/**
 * Lets few of many works run at once. The others wait in a line for each address, and lines take turns: a person waits for one work
 * of each other address at most, however many of one address wait. Beyond the bounds works are refused (`upstream_unavailable`).
 */
export class Turns {
  private running = 0
  private waiting = 0
  /** By address, those in which somebody waits; the first has the next turn. */
  private readonly lines = new Map<string, Answer[]>()

  /** Settles as `work` does. `address`: an IPv4 address, or the /56 of an IPv6 address. */
  async take<T>(address: string, work: () => Promise<T>): Promise<T> {
    if (this.running < AT_ONCE) this.running += 1
    else if (!(await this.wait(address)))
      refuse('upstream_unavailable', 'Too many people sign in at this moment. Try again.', { retryAfterSeconds: 5 })
    try {
      return await work()
    } finally {
      this.handOn()
    }
  }

  /** Returns whether the turn came; false where there was no place, or it was given up to another address. */
  private async wait(address: string): Promise<boolean> {
    const line = this.lines.get(address) ?? []
    if (line.length >= WAITING_IN_A_LINE || !this.makePlaceFor(line)) return false
    this.lines.set(address, line)
    this.waiting += 1
    return new Promise((answer) => line.push(answer))
  }

  /** Where all places are taken, the longest line gives up its last one, unless it would be the shorter one then. */
  private makePlaceFor(line: readonly Answer[]): boolean {
    if (this.waiting < WAITING_IN_ALL) return true
    let longest: Answer[] = []
    for (const other of this.lines.values()) if (other.length > longest.length) longest = other
    if (longest.length <= line.length + 1) return false
    longest.pop()?.(false)
    this.waiting -= 1
    return true
  }

  /** Gives the place of a work that has ended to the next one, or back. */
  private handOn(): void {
    const [first] = this.lines
    if (first === undefined) {
      this.running -= 1
      return
    }
    const [address, line] = first
    const next = line.shift()
    // An address with more stands behind all others now.
    this.lines.delete(address)
    if (line.length > 0) this.lines.set(address, line)
    this.waiting -= 1
    next?.(true)
  }
}
