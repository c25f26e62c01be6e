import type { Forwarding } from '../../infra/proxy/forward.ts'

/** Requests to apps at one time. Each has up to 256 KiB in buffers on its way. */
const REQUESTS_MOST = 1_024

/** One organization leaves the rest of them to others, and one instance the rest of these to the other instances. */
const ORGANIZATION_REQUESTS_MOST = 128
const INSTANCE_REQUESTS_MOST = 64

/** The instance of a request, its organization, and the hash of the password that opened the door. */
interface DoorKey {
  readonly organizationId: string
  readonly id: string
  readonly hash: Uint8Array
}

/** The place of a request to an app. */
export interface Door extends DoorKey {
  /** It is on its way. */
  opened(forwarding: Forwarding): void
  /** Ends it. */
  end(): void
  /** Gives its place back; may be called more than once. */
  close(): void
}

/** The requests that are under way to apps. */
export interface Doors {
  /**
   * Takes a place. Where all are taken, the organization with the most loses its oldest request, unless it has hardly more than the
   * one that asks. Null: there is no place.
   */
  take(key: DoorKey): Door | null
  /** All that is under way. */
  all(): Door[]
}

export function createDoors(): Doors {
  /** The oldest first. */
  const open = new Map<string, Set<Door>>()
  let count = 0
  const makeRoom = (organizationId: string): boolean => {
    const own = open.get(organizationId)?.size ?? 0
    const most = [...open.values()].reduce((one, other) => (other.size > one.size ? other : one))
    const [oldest] = most
    if (oldest === undefined || most.size < own + 2) return false
    oldest.end()
    oldest.close()
    return true
  }
  return {
    take(key) {
      const own = open.get(key.organizationId) ?? new Set<Door>()
      if (own.size >= ORGANIZATION_REQUESTS_MOST) return null
      if ([...own].filter(({ id }) => id === key.id).length >= INSTANCE_REQUESTS_MOST) return null
      if (count >= REQUESTS_MOST && !makeRoom(key.organizationId)) return null
      const door = newDoor(key, () => {
        if (!own.delete(door)) return
        count -= 1
        if (own.size === 0) open.delete(key.organizationId)
      })
      open.set(key.organizationId, own.add(door))
      count += 1
      return door
    },
    all: () => [...open.values()].flatMap((own) => [...own]),
  }
}

function newDoor(key: DoorKey, onClosed: () => void): Door {
  let forwarding: Forwarding | null = null
  let isEnded = false
  return {
    ...key,
    close() {
      // Its connection may have another request by now.
      forwarding = null
      onClosed()
    },
    opened(begun) {
      forwarding = begun
      if (isEnded) begun.end()
    },
    end() {
      isEnded = true
      forwarding?.end()
    },
  }
}

/**
 * Ends the requests that were let in by a password which is not their instance's any more. `readHashes` returns the
 * hashes of those instances that run. A request that begins meanwhile stays: it was let in by a newer row.
 */
export async function endStaleDoors(
  doors: Pick<Doors, 'all'>,
  readHashes: (ids: readonly string[]) => Promise<ReadonlyMap<string, Uint8Array>>,
): Promise<void> {
  const asked = doors.all()
  if (asked.length === 0) return
  const right = await readHashes([...new Set(asked.map(({ id }) => id))])
  for (const door of asked) {
    const hash = right.get(door.id)
    if (hash === undefined || Buffer.compare(hash, door.hash) !== 0) door.end()
  }
}
