/** The memory of all request bodies of this process, of which no key and no organization may take all (K4). */

import { type Refusal, refusal } from '../../lib/errors.ts'
import { addBytes } from '../../lib/ownedBytes.ts'

/** The memory that one body takes: nothing at first. */
export interface BodyReservation {
  /** The organization, or for requests without one the address or the sender. */
  readonly owner: string
  /** The most that it has come to. */
  readonly mostBytes: number
  /** Sets the reservation to `bytes`. Returns a refusal and changes nothing if there is no room; shrinking always works. */
  hold(bytes: number): Refusal | null
  /** Gives everything back; may be called more than once. */
  close(): void
}

export interface BodyMemory {
  readonly takenBytes: number
  /** `key` is the id of a key or a session, an address or a sender; `organization` is null for those without one. */
  open(key: string, organization: string | null): BodyReservation
}

/** The largest part of the memory that bodies of one key may take, of one organization, and all that are large. */
const KEY_SHARE = 1 / 2
const ORGANIZATION_SHARE = 3 / 4
const LARGE_SHARE = 7 / 8

/** Bodies of more bytes leave the last part of the memory to smaller ones: small calls go on while others fill it. */
export const LARGE_BODY_BYTES = 64 << 10

const FULL = refusal(
  'upstream_unavailable',
  'This server has no memory left for a request body of this size. Nothing was done; wait for the seconds in Retry-After and send it again.',
  { retryAfterSeconds: 1 },
)

const SHARE_TAKEN = refusal(
  'rate_limit_exceeded',
  'The request bodies that this key, or its organization, has under way take all the memory that they may have. ' +
    'Wait for one of them to end, or send smaller ones.',
  { retryAfterSeconds: 1 },
)

/** A memory of so many bytes. One entry for each key, organization and address with a body under way. */
export function createBodyMemory(bytesMost: number): BodyMemory {
  return new SharedMemory(bytesMost)
}

class SharedMemory implements BodyMemory {
  takenBytes = 0
  private readonly bytesMost: number
  private readonly keys = new Map<string, number>()
  private readonly organizations = new Map<string, number>()

  constructor(bytesMost: number) {
    this.bytesMost = bytesMost
  }

  open(key: string, organization: string | null): BodyReservation {
    return new Reservation(this, key, organization)
  }

  /** Why `more` bytes can't be had for a body that comes to `bytes` with them; null: they can. */
  refuse(key: string, organization: string | null, more: number, bytes: number): Refusal | null {
    const { bytesMost } = this
    if ((this.keys.get(key) ?? 0) + more > bytesMost * KEY_SHARE) return SHARE_TAKEN
    if (organization !== null && (this.organizations.get(organization) ?? 0) + more > bytesMost * ORGANIZATION_SHARE) {
      return SHARE_TAKEN
    }
    return this.takenBytes + more > bytesMost * (bytes > LARGE_BODY_BYTES ? LARGE_SHARE : 1) ? FULL : null
  }

  /** Takes `more` bytes, or gives them back where they are negative. */
  add(key: string, organization: string | null, more: number): void {
    this.takenBytes += more
    addBytes(this.keys, key, more)
    if (organization !== null) addBytes(this.organizations, organization, more)
  }
}

class Reservation implements BodyReservation {
  private readonly memory: SharedMemory
  private readonly key: string
  private readonly organization: string | null
  private bytes = 0
  mostBytes = 0

  constructor(memory: SharedMemory, key: string, organization: string | null) {
    this.memory = memory
    this.key = key
    this.organization = organization
  }

  get owner(): string {
    return this.organization ?? this.key
  }

  hold(bytes: number): Refusal | null {
    // The sum of all bodies would be no number for ever, and bound nothing.
    if (!Number.isSafeInteger(bytes) || bytes < 0) throw new Error(`a body of ${bytes} bytes`)
    const more = bytes - this.bytes
    if (more === 0) return null
    const refused = more > 0 ? this.memory.refuse(this.key, this.organization, more, bytes) : null
    if (refused !== null) return refused
    this.bytes = bytes
    this.mostBytes = Math.max(this.mostBytes, bytes)
    this.memory.add(this.key, this.organization, more)
    return null
  }

  close(): void {
    if (this.bytes > 0) this.hold(0)
  }
}
