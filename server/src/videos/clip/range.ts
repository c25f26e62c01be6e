/** Which part of a file is asked for (RFC 9110, sections 13 and 14). */

/** The validators of a file: it never changes, so both of these are exact. */
export interface Validators {
  /** With its quotes. */
  readonly etag: string
  /** As HTTP writes it, in whole seconds. */
  readonly lastModified: string
}

export type Asked =
  | { readonly kind: 'whole' }
  /** Bytes, both included. */
  | { readonly kind: 'part'; readonly first: number; readonly last: number }
  /** Nothing of the file is in it. */
  | { readonly kind: 'outside' }
  /** The client has it already. */
  | { readonly kind: 'unchanged' }

/** Reads the conditions and the range of a request for a file of `bytes`, at least 1. Only GET asks for a range. */
export function askedFor(method: string, headers: Headers, bytes: number, validators: Validators): Asked {
  const known = headers.get('If-None-Match')
  if (known !== null && isNamed(known, validators.etag)) return { kind: 'unchanged' }
  const range = headers.get('Range')
  if (method !== 'GET' || range === null || !mayBePart(headers.get('If-Range'), validators)) return { kind: 'whole' }
  return parseRange(range, bytes)
}

function isNamed(list: string, etag: string): boolean {
  return list.split(',').some((each) => ['*', etag, `W/${etag}`].includes(each.trim()))
}

/** With another file's validator all of this one is sent. */
function mayBePart(ifRange: string | null, { etag, lastModified }: Validators): boolean {
  return ifRange === null || ifRange.trim() === etag || ifRange.trim() === lastModified
}

/** One range. Several, and what is none, may be answered with the whole file, and are. */
function parseRange(text: string, bytes: number): Asked {
  // Few blanks: with any number of them a header of nothing else takes the square of its length.
  const [, from, to] = /^bytes=\s{0,3}(\d{0,15})\s{0,3}-\s{0,3}(\d{0,15})\s{0,3}$/i.exec(text) ?? []
  if (from === undefined || to === undefined || (from === '' && to === '')) return { kind: 'whole' }
  if (from === '') {
    const length = Number(to)
    return length === 0 ? { kind: 'outside' } : { kind: 'part', first: Math.max(bytes - length, 0), last: bytes - 1 }
  }
  const first = Number(from)
  const last = to === '' ? bytes - 1 : Number(to)
  if (last < first) return to === '' ? { kind: 'outside' } : { kind: 'whole' }
  return first >= bytes ? { kind: 'outside' } : { kind: 'part', first, last: Math.min(last, bytes - 1) }
}
