/** How many blocks of a chain are settled in one step. */

import type { BlockRange } from '../chains/chain.ts'

/** It is kept from look to look: of a flood, each look would otherwise begin with a range that is far too long. */
export interface StepLength {
  /** Blocks that the next step takes at most. */
  blocks(): number
  /** Half of a range that was too long is the next step. */
  shorten(range: BlockRange): void
  /** After a range that was read: some in a row that were as long as they may be make the next one twice as long. */
  lengthen(range: BlockRange): void
}

/** In the middle of a flood a longer step is nearly always too long, and finding that out takes time. */
const READ_BEFORE_LONGER = 4

/** Makes it, of at most so many blocks. */
export function createStepLength(most: number): StepLength {
  let blocks = most
  let inRow = 0
  const lengthOf = ({ from, to }: BlockRange) => to - from + 1
  return {
    blocks: () => blocks,
    shorten(range) {
      blocks = Math.max(Math.ceil(lengthOf(range) / 2), 1)
      inRow = 0
    },
    lengthen(range) {
      if (lengthOf(range) < blocks) return
      inRow += 1
      if (inRow < READ_BEFORE_LONGER) return
      blocks = Math.min(blocks * 2, most)
      inRow = 0
    },
  }
}
