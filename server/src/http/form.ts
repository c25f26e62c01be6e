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

const NO_FIELD = refusal(
  'invalid_request',
  'The form has a part that can not be read as one field. Give each part one line \'Content-Disposition: form-data; name="…"\' with the name of its field, and end each line with CR LF.',
)

/** A parsed form: all that the thread of large bodies gives back of one. */
export interface Form {
  /** In their order. */
  readonly fields: readonly FormField[]
  /** The first 64 characters of the names of its files, in their order. No endpoint takes a file. */
  readonly files: readonly string[]
}

/**
 * Returns the fields of a multipart form and the names of its files. A Content-Type with other parameters than the boundary, a body that is
 * no such form, one of more than `partsMost` parts, one with a part that is no field, or one that is not UTF-8 is refused with
 * `invalid_request` (E6).
 */
export async function parseForm(
  bytes: Uint8Array<ArrayBuffer>,
  contentType: string,
  partsMost: number,
): Promise<Result<Form>> {
  const boundary = boundaryOf(contentType)
  if (boundary === null) return refused(WRONG_TYPE)
  if (hasMoreParts(bytes, boundary, partsMost)) {
    return refused(refusal('invalid_request', `The form has more than ${partsMost} parts; send fewer.`))
  }
  let entries: FormData
  try {
    // The parser must find the boundary that was counted, so it is not given the header as it came.
    const headers = { 'Content-Type': `multipart/form-data; boundary="${boundary}"` }
    entries = await new Response(bytes, { headers }).formData()
  } catch {
    return refused(refusal('invalid_request', 'The request body is not the multipart form that its Content-Type says.'))
  }
  const fields: FormField[] = []
  const files: string[] = []
  for (const [name, value] of entries) {
    if (typeof value === 'string') fields.push({ name, value })
    else files.push(name.slice(0, 64))
  }
  // The parser drops parts that it finds no name in, takes the last of two names, and ends a name before a NUL.
  const heads = headsOf(bytes, boundary)
  if (heads.length > fields.length + files.length || heads.some((head) => isNamedTwice(head) || CONTROL.test(head))) {
    return refused(NO_FIELD)
  }
  // Without files all of it is text. The parser has put other characters for bytes that are none.
  return files.length > 0 || isUtf8(bytes) ? ok({ fields, files }) : refused(NOT_UTF8)
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
  const delimiter = delimiterOf(boundary)
  const searched = bufferOf(bytes)
  // One follows each part, and one more the last.
  let left = partsMost + 1
  for (let at = searched.indexOf(delimiter); at >= 0; at = searched.indexOf(delimiter, at + delimiter.length)) {
    left -= 1
    if (left < 0) return true
  }
  return false
}

const DISPOSITION = /^content-disposition[ \t]*:/im

/** A control character that no header may hold. From U+0080 on they are parts of UTF-8 here. */
const CONTROL = /[^\P{Cc}\t\r\n\x80-\x9f]/u

function isNamedTwice(head: string): boolean {
  return head.split(DISPOSITION, 3).length > 2
}

/** Returns the headers of all parts, as far as a reader of any kind could find parts; those of a form without too many. */
function headsOf(bytes: Uint8Array<ArrayBuffer>, boundary: string): string[] {
  const delimiter = delimiterOf(boundary)
  const searched = bufferOf(bytes)
  const starts: number[] = []
  for (let at = searched.indexOf(delimiter); at >= 0; ) {
    const end = at + delimiter.length
    const isPart = beginsPart(searched, at, end)
    if (isPart) starts.push(end)
    at = searched.indexOf(delimiter, isPart ? end : at + 1)
  }
  return starts.map((start, index) => {
    const part = searched.subarray(start, starts[index + 1])
    return part.toString('latin1', 0, Math.max(part.indexOf('\r\n\r\n'), 0))
  })
}

const [TAB, LINE_FEED, RETURN, SPACE] = [0x09, 0x0a, 0x0d, 0x20]

/**
 * Returns whether a part begins after the delimiter from `at` to `end`: by our parser, which wants CR LF after it and takes it anywhere;
 * or by another, which wants it at the start of a line and takes spaces after it, or LF alone.
 */
function beginsPart(bytes: Buffer, at: number, end: number): boolean {
  const isLine = at === 0 || bytes[at - 1] === LINE_FEED
  let next = end
  while (isLine && (bytes[next] === SPACE || bytes[next] === TAB)) next += 1
  if (isLine && bytes[next] === LINE_FEED) return true
  return bytes[next] === RETURN && bytes[next + 1] === LINE_FEED
}

function delimiterOf(boundary: string): Buffer {
  return Buffer.from(`--${boundary}`)
}

function bufferOf(bytes: Uint8Array<ArrayBuffer>): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
