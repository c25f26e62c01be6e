import type { Participant } from '../../infra/postgres/database.ts'
import { joinAll } from '../../infra/postgres/joinAll.ts'
import { refusal } from '../../lib/errors.ts'
import { isUuid } from '../../lib/ids.ts'
import { ok, type Result, refused } from '../../lib/result.ts'
import type { Delivery } from '../deliveries/delivery.ts'
import { refuseToSend, type SendDependencies, takeSend } from './refuseToSend.ts'
import { beginRound, findDelivery, findTypes, hasten, lockTurn } from './store.ts'

/**
 * Sends an event to its endpoint again: one that is over begins its whole schedule anew, one that waits for its next
 * attempt gets it now, and one that is being sent goes on. Refuses an unknown id, and a delivery whose endpoint was deleted;
 * then by the limits of the organization, and where nobody pays.
 */
export async function redeliver(
  dependencies: SendDependencies,
  organizationId: string,
  id: string,
  keep: (delivery: Delivery) => Promise<readonly Participant[]>,
): Promise<Result<Delivery>> {
  const { database, clock } = dependencies
  const found = isUuid(id) ? await findDelivery(database, organizationId, id) : null
  if (found === null) return refused(NO_DELIVERY)
  if ((await findTypes(database, organizationId, found.endpointId)) === null) return refused(NO_ENDPOINT)
  const refusing = await refuseToSend(dependencies, organizationId, found.state !== 'pending')
  if (refusing !== null) return refused(refusing)
  const done = await database.transaction(async (tx) => {
    // The turn first, as everywhere: it keeps runners from the delivery.
    if (!(await lockTurn(tx, organizationId, found.endpointId))) return NO_ENDPOINT
    const tooMany = await takeSend(tx, dependencies, organizationId)
    if (tooMany !== null) return tooMany
    await beginRound(tx, id, clock.now())
    // Also while its turn is held: an attempt that is over may be written down before its turn is given back. One that is
    // under way sets the next instant itself when it ends.
    await hasten(tx, found, clock.now())
    const delivery = await findDelivery(tx, organizationId, id)
    if (delivery === null) return NO_DELIVERY
    await joinAll(tx, await keep(delivery))
    return delivery
  }, organizationId)
  return 'code' in done ? refused(done) : ok(done)
}

export const NO_DELIVERY = refusal(
  'not_found',
  'There is no such delivery; GET /manage/v1/deliveries lists those of 30 days.',
)
const NO_ENDPOINT = refusal('not_found', "The delivery's webhook endpoint was deleted; nothing can be sent to it.")
