import type { Transaction } from '../infra/postgres/database.ts'
import { bodyOf, type PublishedEvent } from './events/event.ts'
import { insertDeliveries, insertEvent } from './store.ts'

/**
 * Writes an event, and a delivery for each enabled endpoint of its organization that subscribed to its type, in the
 * transaction of what happened: told if that commits, never otherwise. An endpoint's types are those that it was
 * created with. Harmless when it runs again for the same id. Deliveries leave within a quarter of a second of the
 * commit. Where the organization has `pendingMost` pending ones already, further ones are dead from the start;
 * transactions at the same instant don't count each other's.
 */
export async function publishEvent(tx: Transaction, event: PublishedEvent, pendingMost: number): Promise<void> {
  if (await insertEvent(tx, event, bodyOf(event))) await insertDeliveries(tx, event, pendingMost)
}

/** Writes an event that is delivered by other means, or to nobody. */
export async function noteEvent(tx: Transaction, event: PublishedEvent): Promise<void> {
  await insertEvent(tx, event, bodyOf(event))
}
