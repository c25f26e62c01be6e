import type { Database, Rider } from '../../io/postgres/database.ts'
import { refusal } from '../../kernel/errors.ts'
import { isUuid } from '../../kernel/ids.ts'
import { ok, type Result, refused } from '../../kernel/result.ts'
import type { Clock } from '../../kernel/time.ts'
import type { Delivery } from '../deliveries/delivery.ts'
import { beginRound, findDelivery, hasten, lockTurn } from './store.ts'

/**
 * Sends an event to its endpoint again: one that is over begins its whole schedule anew, one that waits for its next
 * attempt gets it now, and one that is being sent goes on. Refuses what is unknown, and where the endpoint is gone.
 */
export async function redeliver(
  { database, clock }: { readonly database: Database; readonly clock: Clock },
  organizationId: string,
  id: string,
  keep: (delivery: Delivery) => Promise<readonly Rider[]>,
): Promise<Result<Delivery>> {
  if (!isUuid(id)) return refused(NO_DELIVERY)
  const done = await database.transaction(async (tx) => {
    const found = await findDelivery(tx, organizationId, id)
    if (found === null) return NO_DELIVERY
    // The turn first, as everywhere: it keeps workers from the delivery.
    if (!(await lockTurn(tx, organizationId, found.endpointId))) return NO_ENDPOINT
    await beginRound(tx, id, clock.now())
    // Also while its turn is held: an attempt that is over may be written down before its turn is given back. One that is
    // under way sets the next instant itself when it ends.
    await hasten(tx, found, clock.now())
    const delivery = await findDelivery(tx, organizationId, id)
    if (delivery === null) return NO_DELIVERY
    for (const ride of await keep(delivery)) await ride(tx)
    return delivery
  })
  return 'code' in done ? refused(done) : ok(done)
}

const NO_DELIVERY = refusal('not_found', 'There is no such delivery; GET /manage/v1/deliveries lists those of 30 days.')
const NO_ENDPOINT = refusal('not_found', "The delivery's webhook endpoint was deleted; nothing can be sent to it.")
