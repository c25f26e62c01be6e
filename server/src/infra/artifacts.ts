/** Large files that customers fetch: written whole or not at all, and never changed. A folder, or an S3-compatible store. */

export interface Artifacts {
  /**
   * Writes a file from what comes; resolves when it is there for good. Rejects, and leaves nothing, when the pieces break
   * off or come to more than `bytesMost` ({@link ArtifactTooLarge}). The pieces' iterator is ended in every case.
   */
  write(name: string, pieces: AsyncIterable<Uint8Array>, bytesMost: number): Promise<{ readonly bytes: number }>
  /** Null when there is none of this name. */
  size(name: string): Promise<number | null>
  /**
   * The bytes from `first` to `last`, both included and both of the file, in pieces; null when there is none of this name.
   * Read it to its end, or cancel it.
   */
  read(name: string, first: number, last: number): Promise<ReadableStream<Uint8Array> | null>
  /** Bytes that can still be written. Absent where nobody can say. */
  freeBytes?(): Promise<number>
  /** Does nothing when there is none. */
  remove(name: string): Promise<void>
  /** Names of files that were last written before `untilMs` (milliseconds since the epoch), unfinished ones among them. */
  list(untilMs: number): AsyncIterable<string>
}

/** More pieces came than the caller allowed. */
export class ArtifactTooLarge extends Error {
  constructor(bytesMost: number) {
    super(`the file is larger than ${bytesMost} bytes`)
    this.name = 'ArtifactTooLarge'
  }
}

/** Names that are a file's name everywhere, and lead out of no folder. */
const NAME = /^[a-z0-9][a-z0-9._-]{0,239}$/

/** Throws for a name that no artifact may have: names are made by the gateway, so it is a mistake of ours. */
export function checkArtifactName(name: string): string {
  if (!NAME.test(name)) throw new Error('an artifact is named by a-z, 0-9, ".", "_" and "-"')
  return name
}

/** Returns few bytes of a file, from `first` to `last`, both included; null when there is none of this name. */
export async function readArtifactRange(
  artifacts: Artifacts,
  name: string,
  first: number,
  last: number,
): Promise<Uint8Array<ArrayBuffer> | null> {
  const stream = await artifacts.read(name, first, last)
  if (stream === null) return null
  const bytes = new Uint8Array(last - first + 1)
  let filled = 0
  for await (const piece of stream) {
    bytes.set(piece, filled)
    filled += piece.byteLength
  }
  return bytes.subarray(0, filled)
}
