/** Large files that customers fetch: written whole or not at all, and never changed. A folder, or an S3-compatible store. */

export interface Artifacts {
  /**
   * Writes a file from what comes; resolves when it is there for good. Rejects, and leaves nothing, when the pieces break
   * off or come to more than `bytesMost`.
   */
  write(name: string, pieces: AsyncIterable<Uint8Array>, bytesMost: number): Promise<{ readonly bytes: number }>
  /** Null when there is none of this name. */
  size(name: string): Promise<number | null>
  /** The bytes from `first` to `last`, both included, in pieces; null when there is none of this name. */
  read(name: string, first: number, last: number): Promise<ReadableStream<Uint8Array> | null>
  /** Does nothing when there is none. */
  remove(name: string): Promise<void>
  /** Names of files that were last written before `untilMs` (milliseconds since the epoch), unfinished ones among them. */
  list(untilMs: number): AsyncIterable<string>
}
