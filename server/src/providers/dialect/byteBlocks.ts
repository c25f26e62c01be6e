/**
 * Bytes of a block. A list of small pieces takes some 100 bytes for each of them, which nobody counts: 64 MiB in pieces of one byte
 * would be gigabytes.
 */
export const BLOCK_BYTES = 64 << 10
/** The second block has at least so many bytes. */
const SMALL_BLOCK_BYTES = 4 << 10

/**
 * Bytes that come in pieces of any size, copied into blocks. Each block has a buffer to itself, so that it can be moved to a thread.
 * The blocks take 64 KiB more memory than their bytes at most.
 */
export class ByteBlocks {
  private readonly full: Uint8Array<ArrayBuffer>[] = []
  private last = new Uint8Array(0)
  private filledBytes = 0
  private totalBytes = 0

  get byteLength(): number {
    return this.totalBytes
  }

  /** Copies a piece behind the others; the caller may go on to use its memory. */
  add(piece: Uint8Array): void {
    let at = 0
    while (at < piece.byteLength) {
      if (this.filledBytes === this.last.byteLength) this.begin(piece.byteLength - at)
      const part = piece.subarray(at, at + this.last.byteLength - this.filledBytes)
      this.last.set(part, this.filledBytes)
      this.filledBytes += part.byteLength
      this.totalBytes += part.byteLength
      at += part.byteLength
    }
  }

  /** Returns all bytes in their order. Call it once: the blocks are the caller's. */
  take(): Uint8Array<ArrayBuffer>[] {
    const rest = this.last.subarray(0, this.filledBytes)
    return rest.byteLength === 0 ? this.full : [...this.full, rest]
  }

  /** The first block is as long as the first piece: most answers have only one. Blocks grow with the bytes that have come. */
  private begin(restBytes: number): void {
    if (this.filledBytes > 0) this.full.push(this.last)
    const least = this.totalBytes === 0 ? 0 : Math.max(this.totalBytes, SMALL_BLOCK_BYTES)
    this.last = new Uint8Array(Math.max(restBytes, Math.min(least, BLOCK_BYTES)))
    this.filledBytes = 0
  }
}
