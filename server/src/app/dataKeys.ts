import type { Config } from '../config/config.ts'
import { openDataKeysRoom } from '../http/dataKeys/open.ts'
import { ringSource } from '../http/dataKeys/ring.ts'
import { isAnswerSealedWith } from '../http/idempotency/store.ts'
import type { openProcesses } from '../processes/open.ts'
import { isSecretSealedWith } from '../webhooks/endpoints/store.ts'
import type { Infrastructure } from './infrastructure.ts'

interface DataKeysOptions extends Pick<Infrastructure, 'database' | 'clock' | 'random' | 'log'> {
  readonly config: Pick<Config, 'dataKey'>
  /** The process can't go on. */
  readonly onFatal: (reason: string) => void
}

/** Opens the installation's data keys. A process that lacks one of them leaves its slot again. */
export async function openDataKeysOrLeave(
  { config, database, clock, random, log, onFatal }: DataKeysOptions,
  processes: Pick<Awaited<ReturnType<typeof openProcesses>>, 'slot' | 'close' | 'onRegained'>,
  dataDirectory: string,
) {
  const { slot } = processes
  const opening = openDataKeysRoom({
    database,
    clock,
    log,
    slot: () => slot.number,
    ring: ringSource({ dataDirectory, given: config.dataKey, random }),
    isAbandoned: slot.isAbandoned,
    isSealedWith: [isAnswerSealedWith, isSecretSealedWith],
    onLost: onFatal,
  })
  const keys = await opening.catch(async (error: unknown) => {
    await processes.close()
    throw error
  })
  processes.onRegained(keys.onSlotRegained)
  return keys
}
