import { isUtf8 } from 'node:buffer'
import { refusal } from '../lib/errors.ts'
import { ok, type Result, refused } from '../lib/result.ts'
import type { FormField } from './idempotency/fingerprint.ts'

/** Returns whether a Content-Type announces a multipart form. */
export function isForm(contentType: string | null): contentType is string {
  return contentType !== null && /^multipart\/form-data\s*(;|$)/i.test(contentType)
}

const WRONG_TYPE = refusal(
  'invalid_request',
  'The Content-Type of a form must be multipart/form-data with one boundary of 1 to 70 characters, and with no other parameter than charset.',
)

const NOT_UTF8 = refusal('invalid_request', 'The request body is not valid UTF-8.')

/**
 * Returns the fields of a multipart form, in order. A file among them is refused with `unsupported_parameter`; a Content-Type
 * with other parameters than the boundary, a body that is no such form, one of more than `partsMost` parts, or one that is not UTF-8, with
 * `invalid_request` (E6).
 */
export async function parseForm(
  bytes: Uint8Array<ArrayBuffer>,
  contentType: string,
  partsMost: number,
): Promise<Result<readonly FormField[]>> {
  const boundary = boundaryOf(contentType)
  if (boundary === null) return refused(WRONG_TYPE)
  const tooMany = refusal('invalid_request', `The form has more than ${partsMost} parts; send fewer.`)
  if (hasMoreParts(bytes, boundary, partsMost)) return refused(tooMany)
  let entries: FormData
  try {
    // The parser must find the boundary that was counted, so it is not given the header as it came.
    const headers = { 'Content-Type': `multipart/form-data; boundary="${boundary}"` }
    entries = await new Response(bytes, { headers }).formData()
  } catch {
    return refused(refusal('invalid_request', 'The request body is not the multipart form that its Content-Type says.'))
  }
  const fields: FormField[] = []
  for (const [name, value] of entries) {
    if (fields.length === partsMost) return refused(tooMany)
    if (typeof value !== 'string') {
      const param = name.slice(0, 64)
      return refused(refusal('unsupported_parameter', `'${param}' is a file; files are not accepted.`, { param }))
    }
    fields.push({ name, value })
  }
  // Without files all of it is text. The parser has put other characters for bytes that are none.
  return isUtf8(bytes) ? ok(fields) : refused(NOT_UTF8)
}

/** One parameter of a Content-Type, or an empty one, from where the last ended. */
const PARAMETER = /[ \t]*;[ \t]*(?:([^\s;="]+)=(?:"([^"\\]*)"|([^\s;",]+)))?/y

/** RFC 2046, section 5.1.1: at most 70 characters, of which the last is no space. */
const BOUNDARY = /^[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]$/

/**
 * Returns the boundary that a Content-Type names; null where it names none, two or a malformed one, or has parameters other
 * than `charset`. Two readers could find different boundaries in such a header.
 */
function boundaryOf(contentType: string): string | null {
  const found = new Map<string, string>()
  let at = 'multipart/form-data'.length
  while (at < contentType.length) {
    PARAMETER.lastIndex = at
    const parameter = PARAMETER.exec(contentType)
    if (parameter === null) return null
    at = PARAMETER.lastIndex
    const [, written, quoted, plain] = parameter
    if (written === undefined) continue
    const name = written.toLowerCase()
    if ((name !== 'boundary' && name !== 'charset') || found.has(name)) return null
    found.set(name, quoted ?? plain ?? '')
  }
  const boundary = found.get('boundary')
  return boundary !== undefined && BOUNDARY.test(boundary) ? boundary : null
}

/** Counts where parts begin, until there are too many: parsing a hundred thousand parts took 0.27 s. */
function hasMoreParts(bytes: Uint8Array<ArrayBuffer>, boundary: string, partsMost: number): boolean {
  const delimiter = Buffer.from(`--${boundary}`)
  const searched = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  // One follows each part, and one more the last.
  let left = partsMost + 1
  for (let at = searched.indexOf(delimiter); at >= 0; at = searched.indexOf(delimiter, at + delimiter.length)) {
    left -= 1
    if (left < 0) return true
  }
  return false
}
