import type { Transaction } from '../infra/postgres/database.ts'
import { uuidV7 } from '../lib/ids.ts'
import type { InstanceDependencies, InstanceEvent } from './job/dependencies.ts'
import type { Instance } from './job/instance.ts'
import { instanceToWire } from './job/wire.ts'

/** Publishes what happened to an instance, in the transaction in which it does. */
export function publishInstance(
  tx: Transaction,
  { publish, clock, random }: Pick<InstanceDependencies, 'publish' | 'clock' | 'random'>,
  type: InstanceEvent['type'],
  instance: Instance,
): Promise<void> {
  const { id, object, name, gpu_type, state, reason } = instanceToWire(instance)
  const nowMs = clock.now()
  return publish(tx, {
    id: uuidV7(nowMs, random),
    organizationId: instance.organizationId,
    type,
    createdAtMs: nowMs,
    data: { instance: { id, object, name, gpu_type, state, reason } },
  })
}
