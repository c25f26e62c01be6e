import type { ReadRange } from './clip.ts'

/** A file may have 20,000 boxes of a few bytes, and a read of a store of files takes some 20 ms. */
const BLOCK_BYTES = 256 << 10

/**
 * Returns a reader of the same file, of so many bytes, that reads ahead: ranges beside each other come out of one block, at the cost of
 * one read. It keeps the last block.
 */
export function inBlocks(read: ReadRange, bytes: number): ReadRange {
  let last = { start: 0, content: new Uint8Array() }
  return async (start, end) => {
    if (end - start > BLOCK_BYTES) return read(start, end)
    // Another read may put its own block here meanwhile.
    let block = last
    if (start < block.start || end > block.start + block.content.byteLength) {
      block = { start, content: await read(start, Math.min(start + BLOCK_BYTES, bytes)) }
      last = block
    }
    return block.content.slice(start - block.start, end - block.start)
  }
}
