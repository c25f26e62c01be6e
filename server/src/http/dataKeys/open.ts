import { MINUTE_MS } from '../../lib/time.ts'
import { type DataKeysOptions, openDataKeys } from './openDataKeys.ts'
import { DataKeyFailure } from './ring.ts'
import { dropKeys, type RotationDependencies } from './rotate.ts'
import { DATA_KEYS_CHANNEL, listDataKeys } from './store.ts'

/** A key that is offered is taken up by the notification at once, and by this where none comes. */
const FOLLOW_EVERY_MS = MINUTE_MS
/** Dropped late, an old key does no harm. To drop it takes a lock that kept answers wait for. */
const DROP_EVERY_MS = 10 * MINUTE_MS

export interface DataKeysRoomOptions
  extends DataKeysOptions,
    Pick<RotationDependencies, 'isAbandoned' | 'isSealedWith'> {
  /** A key that values need is gone from this process's own: it can't go on. */
  readonly onLost: (reason: string) => void
}

/** Opens the room of data keys: takes up this process's keys, follows those of others, and drops what is not needed any more. */
export async function openDataKeysRoom(options: DataKeysRoomOptions) {
  const { database, log, onLost } = options
  const dataKeys = await openDataKeys(options)
  const follow = () =>
    dataKeys.follow().catch((error: unknown) => {
      log.error({ err: error }, 'the data keys can not be read; those that were read before stay in use')
    })
  return {
    dataKeys,
    /** This process had lost its slot, and others may have brought a key into use meanwhile that it does not have. */
    onSlotRegained: () =>
      void dataKeys.refresh().catch((error: unknown) => {
        if (error instanceof DataKeyFailure) onLost(error.message)
      }),
    channels: { [DATA_KEYS_CHANNEL]: () => void follow() },
    onConfirmed: (confirmed: boolean) => {
      if (confirmed) void follow()
    },
    periodicTasks: [
      { name: 'data keys', everyMs: FOLLOW_EVERY_MS, run: follow },
      {
        name: 'old data keys',
        everyMs: DROP_EVERY_MS,
        run: async () => {
          if ((await listDataKeys(database)).some(({ state }) => state === 'opening')) await dropKeys(options)
        },
      },
    ],
    close: () => dataKeys.close().catch(() => {}),
  }
}
