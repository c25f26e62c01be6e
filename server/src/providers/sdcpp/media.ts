import { faulty } from '../dialect/failure.ts'

/** Where the clip begins in the document of a job. It comes before the fields that tell its form. */
const MARK = /"b64_json"\s*:\s*"/
/** Characters in front of the mark: the fields of a job that come before its result. */
const FRONT_MOST = 64 << 10

/** Returns whether the beginning of a document shows that a clip follows. */
export function holdsMedia(text: string): boolean {
  return MARK.test(text)
}

/**
 * The bytes of the clip that a document holds in base64, as the document comes: a clip of a minute may have hundreds of
 * megabytes. Throws `faulty` where there is none, and where the document ends within it.
 */
export async function* mediaOf(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  let text = ''
  let isWithin = false
  for await (const piece of pieces) {
    text += Buffer.from(piece).toString('latin1')
    if (!isWithin) {
      const found = MARK.exec(text)
      if (found === null && text.length > FRONT_MOST) throw faulty('the document has no clip where one belongs')
      if (found === null) continue
      isWithin = true
      text = text.slice(found.index + found[0].length)
    }
    const end = text.indexOf('"')
    const given = (end === -1 ? text : text.slice(0, end)).replaceAll('\\', '')
    const whole = end === -1 ? given.length - (given.length % 4) : given.length
    if (whole > 0) yield decoded(given.slice(0, whole))
    if (end !== -1) return
    text = given.slice(whole)
  }
  throw faulty(isWithin ? 'the document ends within the clip' : 'the document has no clip')
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
