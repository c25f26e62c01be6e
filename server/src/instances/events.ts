import type { Transaction } from '../infra/postgres/database.ts'
import { uuidV5 } from '../lib/ids.ts'
import type { InstanceDependencies, InstanceEvent } from './job/dependencies.ts'
import type { Instance } from './job/instance.ts'
import { instanceToWire } from './job/wire.ts'

/** Publishes what happened to an instance, in the transaction in which it does. */
export function publishInstance(
  tx: Transaction,
  { publish, clock }: Pick<InstanceDependencies, 'publish' | 'clock'>,
  type: InstanceEvent['type'],
  instance: Instance,
): Promise<void> {
  const { id, object, name, gpu_type, state, reason } = instanceToWire(instance)
  const nowMs = clock.now()
  return publish(tx, {
    // An instance comes to each of these once. The same for ever: a restored database may tell of it once more.
    id: uuidV5(instance.id, type),
    organizationId: instance.organizationId,
    type,
    createdAtMs: nowMs,
    data: { instance: { id, object, name, gpu_type, state, reason } },
  })
}
