import type { Queryable } from '../../infra/postgres/database.ts'
import { SWEEP_ROWS } from '../../lib/periodicTask.ts'
import { deleteSendsOf, dropDeliveriesOf, dropEventsOf } from './store.ts'

/**
 * Drops the log of an organization that is deleted: its deliveries, the answers of its servers to them, and its events. `goOn` is called
 * before each batch, and throws to break off.
 */
export async function eraseWebhookLog(database: Queryable, organizationId: string, goOn: () => void): Promise<void> {
  for (const drop of [dropDeliveriesOf, dropEventsOf]) {
    let dropped = SWEEP_ROWS
    while (dropped === SWEEP_ROWS) {
      goOn()
      dropped = await drop(database, organizationId, SWEEP_ROWS)
    }
  }
  await deleteSendsOf(database, organizationId)
}
