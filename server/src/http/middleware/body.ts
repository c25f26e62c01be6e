/** The steps that read a body, from bytes to fields. */

import { z } from 'zod'
import { type Refusal, refusal } from '../../lib/errors.ts'
import type { Result } from '../../lib/result.ts'
import { parseWhole } from '../body.ts'
import type { BodyWork } from '../bodyWork.ts'
import { inEnvelope, invalidCodeOf, refusalOfBody } from '../envelopes.ts'
import { quotedNames } from '../faults.ts'
import { type Form, isForm, parseForm } from '../form.ts'
import { type BodyMemory, type BodyReservation, LARGE_BODY_BYTES } from '../limits/bodyMemory.ts'
import { type Middleware, NO_BYTES, type PendingRequest, type PipelineDependencies } from '../pipeline.ts'
import type { Principal } from '../principal.ts'
import { readBody } from '../readBody.ts'
import { validate } from '../validate.ts'

type BodyDependencies = Pick<PipelineDependencies, 'bodyMemory' | 'bodyDeadlines' | 'bodyWork'>

const COMPRESSED = refusal(
  'invalid_request',
  'A compressed body is not accepted here: send it without Content-Encoding.',
)

/**
 * Reads the body, decompressed, of at most `limitBytes`: 413 beyond that, 400 or 422 where it can't be read or does not arrive in
 * time (E6), 429 or 503 where there is no memory for it (K4).
 */
export function bodyBytes(
  { bodyMemory, bodyDeadlines: deadlines, bodyWork: work }: BodyDependencies,
  limitBytes: number,
): Middleware {
  return (pending) => {
    const memory = openMemory(bodyMemory, pending.principal)
    pending.bodyMemory = memory
    return readBody(pending.request, { limitBytes, memory, deadlines, work }).then((read) => noteBytes(pending, read))
  }
}

/**
 * Refuses fields in the body of a route that has none; no bytes, blank ones and `{}` are none. The refusal of fields is left to the end of
 * the steps, and names those of the query too (E17).
 */
export function emptyBody({ bodyWork }: Pick<PipelineDependencies, 'bodyWork'>): Middleware {
  const refuseFields = (refused: Refusal | null, pending: PendingRequest): Refusal | null => {
    if (refused !== null) return refused
    const { envelope, target } = pending
    const unknown = envelope === 'A' ? 'validation_failed' : 'unsupported_parameter'
    const valid = validate(NO_FIELDS, pending.body, invalidCodeOf(target.path), undefined, unknown)
    if (!valid.ok) pending.unsupported = valid.refusal
    return null
  }
  return (pending) => {
    if (isBlank(pending.bytes)) return null
    const parsed = parseJson(pending, bodyWork)
    return parsed instanceof Promise
      ? parsed.then((refused) => refuseFields(refused, pending))
      : refuseFields(parsed, pending)
  }
}

const NO_FIELDS = z.strictObject({})
/** Of bodies that may be blank: a client that has nothing to say sends a line end at most. */
const BLANK_BYTES_MOST = 1_024
/** The white space of JSON: tab, line feed, carriage return, space. */
const BLANKS: ReadonlySet<number> = new Set([0x09, 0x0a, 0x0d, 0x20])

function isBlank(bytes: Uint8Array): boolean {
  return bytes.byteLength <= BLANK_BYTES_MOST && bytes.every((byte) => BLANKS.has(byte))
}

/** Reads the body of a route that ignores it for the fingerprint alone (D4): only of a request with an Idempotency-Key. */
export function withIdempotencyKey(bytes: Middleware): Middleware {
  return (pending) => (pending.request.headers.has('Idempotency-Key') ? bytes(pending) : null)
}

function openMemory(memory: BodyMemory, principal: Principal): BodyReservation {
  switch (principal.kind) {
    case 'apiKey':
    case 'session':
      return memory.open(principal.id, principal.organizationId)
    case 'public':
      return memory.open(principal.address, null)
    case 'signed':
      return memory.open(principal.sender, null)
  }
}

function noteBytes(pending: PendingRequest, read: Result<Uint8Array<ArrayBuffer>>): Refusal | null {
  if (!read.ok) {
    // The client may still send the rest, which nobody reads: the connection is closed.
    pending.isCutOff = true
    return refusalOfBody(read.refusal, pending.envelope, pending.target.path)
  }
  pending.bytes = read.value
  return null
}

/** Refuses a body that is compressed: a signature is made over the bytes as they came. */
export const uncompressed: Middleware = ({ request, envelope }) => {
  const encoding = request.headers.get('Content-Encoding')
  return encoding === null || encoding.toLowerCase() === 'identity' ? null : inEnvelope(COMPRESSED, envelope)
}

/** Parses the bytes as JSON, whatever their Content-Type says. `isOptional`: no bytes, or white space alone, are `{}`. */
export function jsonBody({ bodyWork }: Pick<PipelineDependencies, 'bodyWork'>, isOptional = false): Middleware {
  return (pending) => {
    if (!isOptional || !isBlank(pending.bytes)) return parseJson(pending, bodyWork)
    pending.body = {}
    return null
  }
}

/**
 * Parses the bytes as a multipart form where the Content-Type says so, else as JSON. Refuses files. `hasFields`: their refusal is left
 * to who validates the fields, and names both (E17).
 */
export function formBody(
  { bodyWork, partsMost }: Pick<PipelineDependencies, 'bodyWork' | 'partsMost'>,
  hasFields = false,
): Middleware {
  const noteForm = (pending: PendingRequest, parsed: Result<Form>): Refusal | null => {
    if (!parsed.ok) return note(pending, parsed)
    pending.body = parsed.value.fields
    const files = refuseFiles(parsed.value.files)
    if (files === null || !hasFields) return files
    pending.unsupported = files
    return null
  }
  return (pending) => {
    const contentType = pending.request.headers.get('Content-Type')
    if (!isForm(contentType)) return parseJson(pending, bodyWork)
    const { bytes } = pending
    if (bytes.byteLength <= PARSED_AT_ONCE_BYTES) {
      const parse = () => parseForm(bytes, contentType, partsMost).then((parsed) => noteForm(pending, parsed))
      return takeTurn(pending, bodyWork)?.then(parse) ?? parse()
    }
    return bodyWork.parseForm(ownerOf(pending), bytes, contentType, partsMost).then((done) => {
      // Their memory is let go once the fingerprint is made.
      pending.bytes = done.bytes
      return noteForm(pending, done.parsed)
    })
  }
}

function refuseFiles(files: readonly string[]): Refusal | null {
  const names = [...new Set(files)]
  const [param] = names
  if (param === undefined) return null
  const words = names.length === 1 ? 'is a file' : 'are files'
  return refusal('unsupported_parameter', `${quotedNames(names)} ${words}; files are not accepted.`, { param })
}

/** Larger bodies are parsed by the thread. Smaller ones take 5 ms at most; many that come together are parsed in several turns. */
const PARSED_AT_ONCE_BYTES = 32 << 10

function parseJson(pending: PendingRequest, work: BodyWork): Refusal | null | Promise<Refusal | null> {
  const { bytes } = pending
  if (bytes.byteLength <= PARSED_AT_ONCE_BYTES) {
    const parse = () => note(pending, parseWhole(bytes))
    return takeTurn(pending, work)?.then(parse) ?? parse()
  }
  return work.parse(ownerOf(pending), bytes).then((done) => {
    // They come back for the fingerprint.
    pending.bytes = done.bytes
    return note(pending, done.parsed)
  })
}

function takeTurn(pending: PendingRequest, work: BodyWork): Promise<void> | null {
  return work.takeTurn(ownerOf(pending), pending.bytes.byteLength)
}

function ownerOf({ bodyMemory }: PendingRequest): string {
  return bodyMemory?.owner ?? ''
}

/**
 * Lets the bytes of a parsed body go: the request's stream may last an hour. The values that were made of a large one keep
 * their memory until the request has ended.
 */
export const dropBytes: Middleware = (pending) => {
  const { bytes } = pending
  pending.bytes = NO_BYTES
  if (bytes.byteLength <= LARGE_BODY_BYTES) pending.bodyMemory?.close()
  // At once, and not when garbage is collected next.
  else bytes.buffer.transfer(0)
  return null
}

function note(pending: PendingRequest, parsed: Result<unknown>): Refusal | null {
  if (!parsed.ok) return refusalOfBody(parsed.refusal, pending.envelope, pending.target.path)
  pending.body = parsed.value
  return null
}
