import type { z } from 'zod'
import { readCursor, writeCursor } from '../lib/cursor.ts'
import { isUuid } from '../lib/ids.ts'
import { isInstant } from '../lib/instant.ts'
import { LIMIT_DEFAULT } from '../lib/listLimit.ts'
import { BAD_CURSOR, type ListQuery, listPage } from '../lib/listPage.ts'
import { jsonAnswer } from './jsonAnswer.ts'
import type { Handle, RouteRequest } from './pipeline.ts'
import type { KeyOrSession, Principal } from './principal.ts'
import { validate } from './validate.ts'

/** A list in an order in which no two entries have the same place. */
export interface List<Entry, Place, Wire, Caller extends Principal> {
  /** Stands in its cursors, so that those of another list are refused. */
  readonly name: string
  readonly query: z.ZodType<ListQuery>
  readonly place: PlaceForm<Entry, Place>
  /** Finds the first `limit` entries behind a place; null: from the beginning of the list. */
  readonly find: (call: RouteRequest<Caller>, behind: Place | null, limit: number) => Promise<readonly Entry[]>
  readonly toWire: (entry: Entry, call: RouteRequest<Caller>) => Wire
}

/** The place of an entry as the fields of a cursor. */
interface PlaceForm<Entry, Place> {
  readonly fieldCount: number
  /** Reads fields that anybody may have written; null: they are no place. */
  readonly fromFields: (fields: readonly unknown[]) => Place | null
  readonly toFields: (entry: Entry) => readonly (string | number)[]
}

/** The place of an entry in a list in the order of creation. */
export interface CreationPlace {
  readonly createdAtMs: number
  readonly id: string
}

export const BY_CREATION: PlaceForm<CreationPlace, CreationPlace> = {
  fieldCount: 2,
  fromFields: ([createdAtMs, id]) =>
    isInstant(createdAtMs) && typeof id === 'string' && isUuid(id) ? { createdAtMs, id } : null,
  toFields: ({ createdAtMs, id }) => [createdAtMs, id],
}

/** Handles a GET of a list: reads the page that is asked for, and answers it with the cursor of the next one. */
export function showList<Entry, Place, Wire extends object, Caller extends Principal = KeyOrSession>({
  name,
  query,
  place,
  find,
  toWire,
}: List<Entry, Place, Wire, Caller>): Handle<Caller> {
  return async (call) => {
    const asked = validate(query, Object.fromEntries(call.query), 'validation_failed')
    if (!asked.ok) return asked.refusal
    const { limit = LIMIT_DEFAULT, cursor } = asked.value
    const [list, ...fields] = (cursor === undefined ? null : readCursor(cursor, place.fieldCount + 1)) ?? []
    const behind = list === name ? place.fromFields(fields) : null
    if (cursor !== undefined && behind === null) return BAD_CURSOR
    const found = await find(call, behind, limit + 1)
    const { data, last } = listPage(found, limit, (entry) => toWire(entry, call))
    return jsonAnswer({ data, next_cursor: last === null ? null : writeCursor([name, ...place.toFields(last)]) })
  }
}

/** Handles a GET of a list that is in the order of its entries' ids. */
export function showIdList<
  Entry extends { readonly id: string },
  Wire extends object,
  Caller extends Principal = KeyOrSession,
>(list: Omit<List<Entry, string, Wire, Caller>, 'place'>): Handle<Caller> {
  return showList({
    ...list,
    place: {
      fieldCount: 1,
      fromFields: ([id]) => (typeof id === 'string' && isUuid(id) ? id : null),
      toFields: ({ id }) => [id],
    },
  })
}
