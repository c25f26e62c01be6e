import { HOUR_MS } from '../../lib/time.ts'
import type { ListedEvent } from '../provider/reversal.ts'
import { reversalStates } from '../reversals/states.ts'
import type { SubscriptionRefreshDependencies } from '../subscriptions/refresh.ts'
import { noteCallback } from '../topUps/callback.ts'
import type { PaymentDifference } from './difference.ts'
import { eachApart } from './eachApart.ts'
import { hearing } from './hearing.ts'
import { selectKnownSubscriptions, selectToldEvents } from './store.ts'

/** An event about an object that is not known here is looked at for so long: the rows of the object may still be on their way. */
const UNKNOWN_LOOKED_AT_MS = HOUR_MS

/**
 * Hears the events of a batch that no callback has told of, as if one did: the object of each is retrieved once, and what is retrieved
 * counts. An event is noted with its effect, so that neither its callback nor the next list does it again. Yields subscriptions that were
 * not known, refunds and disputes that were in another state, and objects that can't be read now; the events of these are not noted.
 */
export async function* compareEvents(
  dependencies: SubscriptionRefreshDependencies,
  batch: readonly ListedEvent[],
): AsyncIterable<PaymentDifference> {
  const { database, provider, clock } = dependencies
  const hear = hearing(dependencies)
  const ids = batch.map(({ event }) => event)
  const told = await selectToldEvents(database, provider.name, ids)
  const untold = Map.groupBy(
    batch.filter(({ event }) => !told.has(event)),
    ({ object }) => object,
  )
  const objects = [...untold].map(([object, events]) => {
    return { object, events, createdAtMs: Math.min(...events.map(({ createdAtMs }) => createdAtMs)) }
  })
  yield* eachApart(objects, async function* ({ object, events }) {
    const [first] = events
    if (first === undefined) return
    const before = await stateOf(dependencies, first)
    const heard = await hear[first.kind](object, first.event)
    if (heard === 'superseded') return
    const nowMs = clock.now()
    const settled = events.filter((each) => heard === 'applied' || nowMs - each.createdAtMs > UNKNOWN_LOOKED_AT_MS)
    await database.transaction(async (tx) => {
      for (const { event } of settled) await noteCallback(tx, provider.name, event, nowMs)
    })
    const { kind } = first
    if (heard !== 'applied' || kind === 'checkout' || (await stateOf(dependencies, first)) === before) return
    yield { kind, object, organizationId: null, amountCents: null, isMended: true }
  })
}

/** Returns how a refund or dispute is here, or whether a subscription is known; null where it is not. */
async function stateOf(
  { database, provider }: SubscriptionRefreshDependencies,
  { kind, object }: ListedEvent,
): Promise<string | null> {
  if (kind === 'reversal') return (await reversalStates(database, provider.name, [object])).get(object)?.state ?? null
  if (kind === 'checkout') return null
  return (await selectKnownSubscriptions(database, provider.name, [object])).has(object) ? 'known' : null
}
