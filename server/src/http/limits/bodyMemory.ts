/**
 * The memory of all request bodies of this process, of which no key and no organization may take all (K4). Requests without an
 * organization have a part of their own, so that nobody who has no key stops those who have one.
 */

import { addAmount } from '../../lib/amountsByOwner.ts'
import { type Refusal, refusal } from '../../lib/errors.ts'
import { KEYS_OF_ORGANIZATION } from './openRequests.ts'

/** The memory that one body takes: nothing at first. */
export interface BodyReservation {
  /** The organization, or for requests without one the address or the sender. */
  readonly owner: string
  /** The most that it has come to. */
  readonly mostBytes: number
  /** Sets the reservation to `bytes`. Returns a refusal and changes nothing if there is no room; shrinking always works. */
  hold(bytes: number): Refusal | null
  /**
   * Says that the body arrives, until the result is called. Meanwhile others may need its memory: then `onEnded` is called once, with
   * the refusal for the body, and its memory is given back. Returns a refusal where too many of its key or organization arrive already.
   */
  arrive(onEnded: (why: Refusal) => void): Refusal | (() => void)
  /** Gives everything back, and takes nothing more; may be called more than once. */
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

/** Beside the memory, so much is for bodies of requests without an organization: an eighth of it, but room for several callbacks. */
const NO_ORGANIZATION_SHARE = 1 / 8
const NO_ORGANIZATION_BYTES_LEAST = 4 << 20

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

const NEEDED_BY_OTHERS = refusal(
  'rate_limit_exceeded',
  'This request body had not arrived when others needed its memory. Nothing was done; wait for the seconds in Retry-After and send it ' +
    'again, fewer at a time.',
  { retryAfterSeconds: 1 },
)

const TOO_MANY = refusal(
  'rate_limit_exceeded',
  'Too many request bodies of this key, or of its organization, are still arriving. Nothing was done; send them whole, or fewer at a ' +
    'time, after the seconds in Retry-After.',
  { retryAfterSeconds: 1 },
)

/**
 * A memory of so many bytes, for bodies of which at most `arrivingMost` of a key arrive at once, and ten times as many of an
 * organization: each holds a connection. One entry for each key, organization and address with a body under way.
 */
export function createBodyMemory(bytesMost: number, arrivingMost: number): BodyMemory {
  const ofOrganizations = new SharedMemory(bytesMost, arrivingMost)
  const forOthersBytes = Math.max(bytesMost * NO_ORGANIZATION_SHARE, NO_ORGANIZATION_BYTES_LEAST)
  const ofOthers = new SharedMemory(forOthersBytes, arrivingMost)
  return {
    get takenBytes() {
      return ofOrganizations.takenBytes + ofOthers.takenBytes
    },
    open: (key, organization) =>
      new Reservation(organization === null ? ofOthers : ofOrganizations, key, organization ?? key),
  }
}

class SharedMemory {
  takenBytes = 0
  /** In the order in which they began to arrive. */
  private readonly arriving = new Set<Reservation>()
  private readonly bytesMost: number
  private readonly arrivingMost: number
  private readonly keys = new Map<string, number>()
  private readonly owners = new Map<string, number>()
  private readonly arrivingOfKeys = new Map<string, number>()
  private readonly arrivingOfOwners = new Map<string, number>()

  constructor(bytesMost: number, arrivingMost: number) {
    this.bytesMost = bytesMost
    this.arrivingMost = arrivingMost
  }

  /** Counts a body as one that arrives; false where there are too many. */
  begin(body: Reservation): boolean {
    const { arrivingMost, arrivingOfKeys, arrivingOfOwners } = this
    if ((arrivingOfKeys.get(body.key) ?? 0) >= arrivingMost) return false
    if ((arrivingOfOwners.get(body.owner) ?? 0) >= arrivingMost * KEYS_OF_ORGANIZATION) return false
    this.arriving.add(body)
    addAmount(arrivingOfKeys, body.key, 1)
    addAmount(arrivingOfOwners, body.owner, 1)
    return true
  }

  /** A body has arrived, or never will. May be called more than once. */
  end(body: Reservation): void {
    if (!this.arriving.delete(body)) return
    addAmount(this.arrivingOfKeys, body.key, -1)
    addAmount(this.arrivingOfOwners, body.owner, -1)
  }

  /** Why `more` bytes can't be had for a body that comes to `bytes` with them; null: they can, perhaps by the end of others' bodies. */
  refuse({ key, owner }: Reservation, more: number, bytes: number): Refusal | null {
    const { bytesMost } = this
    if ((this.keys.get(key) ?? 0) + more > bytesMost * KEY_SHARE) return SHARE_TAKEN
    if (this.bytesOf(owner) + more > bytesMost * ORGANIZATION_SHARE) return SHARE_TAKEN
    return this.makeRoom(owner, more, bytesMost * (bytes > LARGE_BODY_BYTES ? LARGE_SHARE : 1)) ? null : FULL
  }

  /** Takes `more` bytes, or gives them back where they are negative. */
  add({ key, owner }: Reservation, more: number): void {
    this.takenBytes += more
    addAmount(this.keys, key, more)
    addAmount(this.owners, owner, more)
  }

  /**
   * Ends bodies that still arrive, the oldest of the owner who has most, until `more` bytes are within `mostBytes`. Only where that
   * owner has more than the one who needs them would have: two of the same size never end each other's.
   */
  private makeRoom(owner: string, more: number, mostBytes: number): boolean {
    while (this.takenBytes + more > mostBytes) {
      let largest: Reservation | null = null
      let largestBytes = this.bytesOf(owner) + more
      for (const each of this.arriving) {
        const bytes = each.isEmpty ? 0 : this.bytesOf(each.owner)
        if (bytes <= largestBytes) continue
        largest = each
        largestBytes = bytes
      }
      if (largest === null) return false
      largest.end(NEEDED_BY_OTHERS)
    }
    return true
  }

  private bytesOf(owner: string): number {
    return this.owners.get(owner) ?? 0
  }
}

class Reservation implements BodyReservation {
  readonly key: string
  readonly owner: string
  mostBytes = 0
  private readonly memory: SharedMemory
  private bytes = 0
  private isClosed = false
  private onEnded: ((why: Refusal) => void) | null = null

  constructor(memory: SharedMemory, key: string, owner: string) {
    this.memory = memory
    this.key = key
    this.owner = owner
  }

  get isEmpty(): boolean {
    return this.bytes === 0
  }

  hold(bytes: number): Refusal | null {
    // The sum of all bodies would be no number for ever, and bound nothing.
    if (!Number.isSafeInteger(bytes) || bytes < 0) throw new Error(`a body of ${bytes} bytes`)
    const more = bytes - this.bytes
    if (more === 0 || this.isClosed) return null
    const refused = more > 0 ? this.memory.refuse(this, more, bytes) : null
    if (refused !== null) return refused
    this.bytes = bytes
    this.mostBytes = Math.max(this.mostBytes, bytes)
    this.memory.add(this, more)
    return null
  }

  arrive(onEnded: (why: Refusal) => void): Refusal | (() => void) {
    if (!this.memory.begin(this)) return TOO_MANY
    this.onEnded = onEnded
    return () => {
      this.memory.end(this)
      // The bytes of the body go with it: the request may be a stream of an hour.
      this.onEnded = null
    }
  }

  /** Ends a body that arrives. */
  end(why: Refusal): void {
    this.close()
    this.onEnded?.(why)
  }

  close(): void {
    this.hold(0)
    this.isClosed = true
    this.memory.end(this)
  }
}
