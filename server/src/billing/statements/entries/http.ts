import { z } from 'zod'
import { showList } from '../../../http/list.ts'
import type { Handle } from '../../../http/pipeline.ts'
import type { KeyOrSession } from '../../../http/principal.ts'
import type { Queryable } from '../../../infra/postgres/database.ts'
import { isUuid } from '../../../lib/ids.ts'
import { isInstant } from '../../../lib/instant.ts'
import { cursorPage, LIST_SHAPE } from '../../../lib/listPage.ts'
import { toTimestamp } from '../../../lib/time.ts'
import { microcentsField } from '../charges/wire.ts'
import { ENTRY_KINDS, type EntryPlace, type ShownEntry, selectEntryPage } from './store.ts'

export const entriesQuery = z.object(LIST_SHAPE)

const ledgerEntry = z
  .object({
    id: z.string().meta({ format: 'uuid' }),
    posted_at: z.string().meta({ format: 'date-time' }),
    kind: z.enum(ENTRY_KINDS),
    amount_microcents: microcentsField,
    source: z
      .string()
      .meta({ description: 'Where it comes from, such as a payment; of each source there is one entry.' }),
  })
  .meta({ id: 'LedgerEntry' })

export const entryPage = cursorPage(ledgerEntry, 'The newest first.', 'LedgerEntryPage')

/** GET /manage/v1/ledger. */
export function showEntries({ database }: { readonly database: Queryable }): Handle<KeyOrSession> {
  return showList({
    name: 'ledger',
    query: entriesQuery,
    place: { fieldCount: 2, fromFields: placeFromFields, toFields: ({ postedAtMs, id }) => [postedAtMs, id] },
    find: ({ principal }, behind, limit) => selectEntryPage(database, principal.organizationId, behind, limit),
    toWire: entryToWire,
  })
}

function placeFromFields([postedAtMs, id]: readonly unknown[]): EntryPlace | null {
  return isInstant(postedAtMs) && typeof id === 'string' && isUuid(id) ? { postedAtMs, id } : null
}

function entryToWire({ id, postedAtMs, kind, amountMicrocents, source }: ShownEntry): z.infer<typeof ledgerEntry> {
  return { id, posted_at: toTimestamp(postedAtMs), kind, amount_microcents: String(amountMicrocents), source }
}
