/** Remembers places in the lists of a node, so that a long list is not read from its beginning for each range of slots. */

/** Places of all accounts of one node. There is one for each list of 1,000 transactions. */
const PLACES_MOST = 10_000

/** A transaction in a list: those that come behind it are of its slot or of earlier ones. */
interface ListingPlace {
  readonly signature: string
  readonly slot: number
}

/** Where the lists of one node can be gone on with. */
export interface ListingPlaces {
  /** Returns the signature behind which everything stands that an account has up to a slot; undefined where none is known. */
  behind(account: string, slot: number): string | undefined
  /** Remembers the end of a list. */
  note(account: string, place: ListingPlace): void
  /** Gives up the places before a slot, which nobody needs any more. */
  dropBefore(account: string, slot: number): void
  /** Gives up those of an account, or all. */
  forget(account?: string): void
}

/** Makes the memory of one node. */
export function createListingPlaces(): ListingPlaces {
  const known = new Map<string, readonly ListingPlace[]>()
  let size = 0
  const put = (account: string, places: readonly ListingPlace[]) => {
    size += places.length - (known.get(account)?.length ?? 0)
    known.delete(account)
    if (places.length > 0) known.set(account, places)
  }
  return {
    behind(account, slot) {
      let found: ListingPlace | undefined
      for (const place of known.get(account) ?? [])
        if (place.slot > slot && (found === undefined || place.slot < found.slot)) found = place
      return found?.signature
    },
    note(account, place) {
      const places = known.get(account) ?? []
      if (!places.some(({ signature }) => signature === place.signature)) put(account, [...places, place])
      for (const oldest of known.keys()) {
        if (size <= PLACES_MOST) break
        put(oldest, [])
      }
    },
    dropBefore(account, slot) {
      const places = known.get(account)
      if (places !== undefined)
        put(
          account,
          places.filter((place) => place.slot >= slot),
        )
    },
    forget(account) {
      for (const each of account === undefined ? [...known.keys()] : [account]) put(each, [])
    },
  }
}
