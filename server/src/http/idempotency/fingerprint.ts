import { createHash } from 'node:crypto'

/** A field of a form. */
export interface FormField {
  readonly name: string
  readonly value: string
}

/** The parts of a request that tell it from another. */
export interface Fingerprinted {
  readonly method: string
  /** As sent, not decoded. */
  readonly path: string
  /** As sent, without its question mark. */
  readonly query: string
  /** The bytes of the body, decompressed; or the fields of a multipart form, in order, since its boundary is chance. */
  readonly body: Uint8Array | readonly FormField[]
}

/** SHA-256 over method, path, query and body (D4): equal for a request sent again, and for no other. */
export function fingerprintOf({ method, path, query, body }: Fingerprinted): Uint8Array {
  const hash = createHash('sha256')
  // Each part is preceded by its length, so that no two requests run together into the same bytes.
  const add = (part: string | Uint8Array) => {
    const bytes = typeof part === 'string' ? Buffer.from(part) : part
    hash.update(`${bytes.byteLength}:`).update(bytes)
  }
  for (const part of [method, path, query]) add(part)
  if (body instanceof Uint8Array) {
    hash.update('bytes:')
    add(body)
  } else {
    hash.update('fields:')
    for (const { name, value } of body) {
      add(name)
      add(value)
    }
  }
  return new Uint8Array(hash.digest())
}
