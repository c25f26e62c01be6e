import { faulty } from '../dialect/failure.ts'

/** Where the clip begins in the document of a job. It comes before the fields that tell its form. */
const MARK = /"b64_json"\s{0,4}:\s{0,4}"/
/** Characters of the longest mark. Writers of JSON put one blank beside a colon at most. */
const MARK_MOST = 20
/** Characters in front of the mark: the fields of a job that come before its result. */
const FRONT_MOST = 64 << 10

/**
 * Looks for where the clip begins in a document that comes in pieces. Each character is looked at some twenty times at most, however
 * small the pieces are.
 */
export class MediaSearch {
  /** The end of what came, in which a mark may have begun. */
  private tail = ''

  /** Returns where in the next piece the clip begins; -1 while it has not begun. */
  startIn(piece: string): number {
    const text = this.tail + piece
    const found = MARK.exec(text)
    if (found !== null) return found.index + found[0].length - this.tail.length
    this.tail = text.slice(1 - MARK_MOST)
    return -1
  }
}

/**
 * The bytes of the clip that a document holds in base64, as the document comes: a clip of a minute may have hundreds of
 * megabytes. Throws `faulty` where there is none, and where the document ends within it.
 */
export async function* mediaOf(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  const search = new MediaSearch()
  let frontCharacters = 0
  let text = ''
  let isWithin = false
  for await (const piece of pieces) {
    let added = latin1Of(piece)
    if (!isWithin) {
      const start = search.startIn(added)
      frontCharacters += added.length
      if (start === -1 && frontCharacters > FRONT_MOST) throw faulty('the document has no clip where one belongs')
      if (start === -1) continue
      isWithin = true
      added = added.slice(start)
    }
    text += added
    const end = text.indexOf('"')
    const given = (end === -1 ? text : text.slice(0, end)).replaceAll('\\', '')
    const whole = end === -1 ? given.length - (given.length % 4) : given.length
    if (whole > 0) yield decoded(given.slice(0, whole))
    if (end !== -1) return
    text = given.slice(whole)
  }
  throw faulty(isWithin ? 'the document ends within the clip' : 'the document has no clip')
}

/** Returns the bytes as text, a character each. */
export function latin1Of(piece: Uint8Array): string {
  return Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength).toString('latin1')
}

function decoded(base64: string): Uint8Array {
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(base64)) throw faulty('the clip is no base64')
  return Buffer.from(base64, 'base64')
}

/** Returns the form of a clip by its first bytes; null for a form that none of these servers makes. */
export function clipFormOf(start: Uint8Array): 'matroska' | 'avi' | 'mp4' | null {
  const bytes = Buffer.from(start.subarray(0, 12))
  const text = bytes.toString('latin1')
  if (bytes.length >= 4 && bytes.readUInt32BE(0) === 0x1a45dfa3) return 'matroska'
  if (text.startsWith('RIFF') && text.slice(8) === 'AVI ') return 'avi'
  return text.slice(4, 8) === 'ftyp' ? 'mp4' : null
}
