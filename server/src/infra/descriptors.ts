import { closeSync, openSync, readFileSync } from 'node:fs'

/** A request takes two: one of its client and one of its provider. Below so many a small burst fails. */
const SPARE = 16

/**
 * Returns whether the process, or the machine, has nearly no file descriptors left: then neither clients nor
 * providers are reached.
 */
export function areDescriptorsShort(): boolean {
  const opened: number[] = []
  try {
    while (opened.length < SPARE) opened.push(openSync('/dev/null', 'r'))
    return false
  } catch (error) {
    return error instanceof Error && 'code' in error && (error.code === 'EMFILE' || error.code === 'ENFILE')
  } finally {
    for (const descriptor of opened) closeSync(descriptor)
  }
}

/**
 * Looked at once for as many answers as a sixteenth of the descriptors, but at most so many: as many connections may be new in the
 * meantime. A look takes a fifth of the time of a call.
 */
const ANSWERS_A_LOOK_MOST = 1_024
const LOOKED_AT_PART = 16

/** The descriptors of this process, as its system counts them. */
export interface DescriptorCounts {
  /** The most that it may have open; null: nobody knows. */
  limit(): number | null
  /** The lowest number that is free: all below it are open. Null: none is free. */
  lowestFree(): number | null
}

/**
 * Returns a function, to be called for each answer, that says whether half of the descriptors are open. Connections that are kept for
 * their next request, which anybody can open, must not take the other half.
 */
export function watchDescriptors(counts: DescriptorCounts = OF_THIS_PROCESS): () => boolean {
  const limit = counts.limit()
  const answersALook = Math.min(Math.ceil((limit ?? ANSWERS_A_LOOK_MOST) / LOOKED_AT_PART), ANSWERS_A_LOOK_MOST)
  let answers = 0
  let areCrowded = false
  return () => {
    if (answers % answersALook === 0) {
      const free = counts.lowestFree()
      areCrowded = free === null || (limit !== null && free >= limit / 2)
    }
    answers += 1
    return areCrowded
  }
}

const OF_THIS_PROCESS: DescriptorCounts = {
  limit() {
    try {
      const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
      return soft === undefined ? null : Number(soft)
    } catch {
      return null
    }
  },
  lowestFree() {
    try {
      const descriptor = openSync('/dev/null', 'r')
      closeSync(descriptor)
      return descriptor
    } catch {
      return null
    }
  },
}
