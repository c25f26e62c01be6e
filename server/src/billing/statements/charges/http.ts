import { z } from 'zod'
import { type Catalog, listedName } from '../../../catalog/model.ts'
import { jsonAnswer } from '../../../http/jsonAnswer.ts'
import type { Handle } from '../../../http/pipeline.ts'
import type { KeyOrSession } from '../../../http/principal.ts'
import { validate } from '../../../http/validate.ts'
import type { Queryable } from '../../../infra/postgres/database.ts'
import { readCursor, writeCursor } from '../../../lib/cursor.ts'
import { refusal } from '../../../lib/errors.ts'
import { isUuid } from '../../../lib/ids.ts'
import { isInstant, LATEST_MS, parseTimestamp } from '../../../lib/instant.ts'
import { LIMIT_DEFAULT, listLimit } from '../../../lib/listLimit.ts'
import { BAD_CURSOR } from '../../../lib/listPage.ts'
import { timestampField } from '../../../lib/queryFields.ts'
import { type Clock, DAY_MS } from '../../../lib/time.ts'
import type { ChargePlace } from './charge.ts'
import { findCharges } from './store.ts'
import { CHARGE_SHAPE, chargeToWire, microcentsField } from './wire.ts'

/** How far back a list goes that names no start. */
const DEFAULT_WINDOW_MS = 30 * DAY_MS

/** Charges that one page looks at: some 20 ms of the database. */
const LOOKED_AT_MOST = 10_000

const instant = timestampField(0, LATEST_MS, 'from 1970 up to 9998')

export const chargesQuery = z.object({
  start: instant.optional().meta({ description: 'Inclusive, by admission. Default: 30 days before `end`.' }),
  end: instant.optional().meta({ description: 'Exclusive, by admission. Default: now.' }),
  key_id: z.uuid({ error: 'must be a UUID' }).optional(),
  model: z
    .string()
    .max(200, { error: 'must have at most 200 characters' })
    .regex(/^[\x21-\x7e]*$/, { error: 'must be printable ASCII without blanks, as all names of models are' })
    .optional()
    .meta({
      description:
        'A model id or alias, for calls of both tiers; with `:economy`, for those of that tier. It finds the calls of a model whatever name they gave. ' +
        'Charges, and exports too, carry the id that the model had when the call was made. A model that is no longer offered is found by its id.',
    }),
  cursor: z.string().optional().meta({
    description: 'The `next_cursor` of the page before. Send the other parameters unchanged with it.',
  }),
  limit: listLimit(),
})

/** The names of the parameters, for the route. */
export const CHARGES_PARAMETERS: readonly string[] = Object.keys(chargesQuery.shape)

const charge = z.object({ ...CHARGE_SHAPE, cost_microcents: microcentsField }).meta({ id: 'Charge' })

export const chargePage = z
  .object({
    data: z.array(charge).meta({ description: 'Newest first.' }),
    next_cursor: z.string().nullable().meta({
      description:
        'Null on the last page. A page may have fewer charges than `limit`, or none, and go on all the same.',
    }),
  })
  .meta({ id: 'ChargePage' })

const EMPTY_WINDOW = refusal(
  'validation_failed',
  "'start' must be earlier than end (unless given, end is now), and not before 1970.",
  { param: 'start' },
)

/** GET /manage/v1/charges. */
export function showCharges({
  database,
  clock,
  catalog,
}: {
  readonly database: Queryable
  readonly clock: Clock
  readonly catalog: () => Catalog
}): Handle<KeyOrSession> {
  return async (call) => {
    const query = validate(chargesQuery, Object.fromEntries(call.query), 'validation_failed')
    if (!query.ok) return query.refusal
    const { start, end, key_id: keyId = null, model: name, cursor, limit = LIMIT_DEFAULT } = query.value
    const from = cursor === undefined ? null : cursorFromWire(cursor)
    if (cursor !== undefined && from === null) return BAD_CURSOR
    const endMs = toInstant(end) ?? from?.endMs ?? clock.now()
    const startMs = toInstant(start) ?? endMs - DEFAULT_WINDOW_MS
    if (startMs >= endMs || startMs < 0) return EMPTY_WINDOW
    const { organizationId } = call.principal
    const model = name === undefined ? null : listedName(catalog(), name)
    const question = { organizationId, startMs, endMs, keyId, model, after: from?.after ?? null }
    const { charges, stoppedAt } = await findCharges(database, question, limit + 1, LOOKED_AT_MOST)
    const shown = charges.slice(0, limit)
    const last = charges.length > limit ? shown.at(-1) : stoppedAt
    const body: z.infer<typeof chargePage> = {
      data: shown.map((each) => ({ ...chargeToWire(each), cost_microcents: String(each.costMicrocents) })),
      next_cursor: last == null ? null : cursorToWire(endMs, last),
    }
    return jsonAnswer(body)
  }
}

function toInstant(text: string | undefined): number | null {
  return text === undefined ? null : parseTimestamp(text)
}

/** The end of the window is the first page's, so that the default start is the same for all pages. */
function cursorToWire(endMs: number, { admittedAtMs, id }: ChargePlace): string {
  return writeCursor(['charges', endMs, admittedAtMs, id])
}

function cursorFromWire(text: string): { readonly endMs: number; readonly after: ChargePlace } | null {
  const [list, endMs, admittedAtMs, id] = readCursor(text, 4) ?? []
  if (list !== 'charges' || !isInstant(endMs) || !isInstant(admittedAtMs)) return null
  return typeof id === 'string' && isUuid(id) ? { endMs, after: { admittedAtMs, id } } : null
}
