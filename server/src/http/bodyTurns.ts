/** Bounds the work on bodies in one turn of the event loop, so that calls of others come between. */

/**
 * Bytes of bodies that are worked on in one turn. 400 bodies of 6 KB that came together held the event loop for 0.45 s. JSON of
 * small values takes a millisecond or two for as many bytes as these, and a call of somebody else needs some five turns.
 */
const TURN_BYTES = 8 << 10

/** Bodies of so few bytes never wait: they take less time than the rest of their request. Most calls are among them. */
const NEVER_WAITS_BYTES = 1 << 10

export interface BodyTurns {
  /** Bodies that wait for their turn. */
  readonly waiting: number
  /**
   * Returns null when `bytes` of a body may be worked on at once; else a promise that resolves when they may. Owners take turns.
   * It never rejects. As many wait as callers let.
   */
  take(owner: string, bytes: number): Promise<void> | null
}

interface Waiting {
  readonly bytes: number
  readonly go: () => void
}

/** `onNextTurn` calls back once in the next turn of the event loop. */
export function createBodyTurns(onNextTurn: (callback: () => void) => void = setImmediate): BodyTurns {
  const lines = new Map<string, Waiting[]>()
  let waiting = 0
  let leftBytes = TURN_BYTES
  let isArmed = false

  const arm = () => {
    if (isArmed) return
    isArmed = true
    onNextTurn(begin)
  }
  const begin = () => {
    isArmed = false
    leftBytes = TURN_BYTES
    for (let next = takeNext(); next !== null; next = takeNext()) {
      leftBytes -= next.bytes
      arm()
      next.go()
    }
  }
  /** The first in the line of the owner whose turn it is; null where nobody waits or no bytes are left. */
  const takeNext = (): Waiting | null => {
    const [first] = lines
    if (leftBytes <= 0 || first === undefined) return null
    const [owner, line] = first
    const next = line.shift() ?? null
    waiting -= 1
    // An owner with more bodies goes to the end of the line.
    lines.delete(owner)
    if (line.length > 0) lines.set(owner, line)
    return next
  }
  return {
    get waiting() {
      return waiting
    },
    take(owner, bytes) {
      if (bytes <= NEVER_WAITS_BYTES) return null
      arm()
      if (leftBytes > 0 && !lines.has(owner)) {
        leftBytes -= bytes
        return null
      }
      return new Promise((go) => {
        const line = lines.get(owner) ?? []
        lines.set(owner, line)
        waiting += 1
        line.push({ bytes, go })
      })
    },
  }
}
