/** Parses the bytes of a body. */

import { type Refusal, refusal } from '../lib/errors.ts'
import { endOfString } from '../lib/jsonText.ts'
import { ok, type Result, refused } from '../lib/result.ts'

/** Nothing in the interface nests deeper than four; the parser's stack must not be the limit. */
const DEPTH_LIMIT = 64

/**
 * Values that one body may hold, counted by commas: as many as parsing and validating can take without holding up others for
 * long. A conversation of thirty thousand messages has as many.
 */
const VALUES_MOST = 65_536

/**
 * Objects and lists that one body may hold: brackets within brackets have no commas, and 1.3 million lists in 2.6 MB held the event
 * loop for 0.1 s when they came back from the thread. A conversation of thirty thousand messages has as many objects.
 */
const CONTAINERS_MOST = 32_768

/**
 * Different names of fields in one body, beyond the first {@link FIELDS_MOST} fields. Each name is made anew on the event loop: 65,000
 * of them took 28 ms. The interface knows fewer than a hundred.
 */
const NAMES_MOST = 1_024

/**
 * Fields that one object may have. The interface knows fewer than fifty in any; an object of 65,000 names, each another, takes up
 * to 0.28 s to parse and to refuse.
 */
const FIELDS_MOST = 512

/** Characters of the name of a field, as it is written. */
const NAME_MOST = 256

/** Parses a body as JSON, whatever its Content-Type says (E6). Refused with `invalid_request`. */
export function parseWhole(bytes: Uint8Array): Result<unknown> {
  const text = decode(bytes)
  if (typeof text !== 'string') return refused(text)
  const wrong = refuseShape(text)
  return wrong === null ? parse(text) : refused(wrong)
}

const STRICT = new TextDecoder('utf-8', { fatal: true })

function decode(bytes: Uint8Array): string | Refusal {
  try {
    return STRICT.decode(bytes)
  } catch {
    return refusal('invalid_request', 'The request body is not valid UTF-8.')
  }
}

function parse(text: string): Result<unknown> {
  try {
    return ok(JSON.parse(text))
  } catch {
    return refused(refusal('invalid_request', 'The request body is not valid JSON.'))
  }
}

const QUOTE = 0x22
const COLON = 0x3a

/** Fields so far of the object at each depth. One for all bodies: a look at one ends before the next begins. */
const fieldsAt = new Uint32Array(DEPTH_LIMIT + 1)

/** Counts the fields of a body, and refuses too many. */
class Fields {
  private count = 0
  private names: Set<string> | null = null

  constructor() {
    fieldsAt[0] = 0
  }

  /** An object begins. */
  begin(depth: number): void {
    fieldsAt[depth] = 0
  }

  /** A field whose name stands from `start` to `end`, where what stands there is JSON. */
  add(depth: number, text: string, start: number, end: number): Refusal | null {
    const inObject = (fieldsAt[depth] ?? 0) + 1
    if (inObject > FIELDS_MOST) {
      return wrongShape(`An object in the request body has more than ${FIELDS_MOST} fields; send fewer.`)
    }
    if (end - start > NAME_MOST) {
      return wrongShape(
        `The name of a field in the request body is longer than ${NAME_MOST} characters; send a shorter one.`,
      )
    }
    fieldsAt[depth] = inObject
    this.count += 1
    // Most bodies have few fields, and no name of theirs is looked at.
    if (this.count <= FIELDS_MOST) return null
    this.names ??= new Set()
    this.names.add(text.slice(start, end))
    if (this.names.size <= NAMES_MOST) return null
    return wrongShape(
      `The fields of the request body have more than ${NAMES_MOST} different names; send only fields that the description has.`,
    )
  }
}

/** Skips the contents of strings, so a body that is large because of long texts is quick to check. */
function refuseShape(text: string): Refusal | null {
  if (text.trim() === '') return wrongShape('The request body is empty; send a JSON object.')
  const fields = new Fields()
  let depth = 0
  let containers = 0
  let values = 1
  let [start, end] = [0, 0]
  for (let index = 0; index < text.length; index += 1) {
    const character = text.charCodeAt(index)
    if (character === QUOTE) {
      start = index + 1
      end = endOfString(text, start)
      index = end
    } else if (character === COLON) {
      // The string before it is the name of a field; else this is no JSON.
      const refused = fields.add(depth, text, start, end)
      if (refused !== null) return refused
    } else if (character === 0x2c) {
      values += 1
      if (values > VALUES_MOST) {
        return wrongShape(`The request body holds more than ${VALUES_MOST} values; send it in parts.`)
      }
    } else if (character === 0x5b || character === 0x7b) {
      depth += 1
      if (depth > DEPTH_LIMIT) return wrongShape(`The request body nests deeper than ${DEPTH_LIMIT} levels.`)
      containers += 1
      if (containers > CONTAINERS_MOST) {
        return wrongShape(`The request body holds more than ${CONTAINERS_MOST} objects and lists; send it in parts.`)
      }
      fields.begin(depth)
    } else if (character === 0x5d || character === 0x7d) depth -= 1
  }
  return null
}

function wrongShape(message: string): Refusal {
  return refusal('invalid_request', message)
}
