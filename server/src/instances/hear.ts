import { isUuid } from '../lib/ids.ts'
import type { InstanceDependencies } from './job/dependencies.ts'
import { idOfDriverName } from './job/instance.ts'
import { askSoon } from './store.ts'

/** Names that wait to be written. Beyond, the driver's next list has them. */
const WAITING_MOST = 20_000

/** Names that are written at once. */
const WRITTEN_MOST = 500

export type HearingMeans = Pick<InstanceDependencies, 'database' | 'clock' | 'log' | 'driver'>

/**
 * Hears of changes that the driver tells by itself, and has it asked about those machines at once, in place of within a minute. Returns a
 * function that stops it and resolves when it has.
 */
export function hearOfChanges(means: HearingMeans, wake: () => void): () => Promise<void> {
  const { driver, log } = means
  const stopping = new AbortController()
  const waiting = new Set<string>()
  let writing: Promise<void> | null = null
  const tell = (name: string) => {
    const id = idOfDriverName(name)
    if (id === null || !isUuid(id) || waiting.size >= WAITING_MOST) return
    waiting.add(id)
    writing ??= writeAll(means, waiting, wake)
      .catch((error: unknown) => log.warn({ err: error }, 'changes of machines were not noted; the next list has them'))
      .finally(() => {
        writing = null
      })
  }
  const watching = driver.watch?.(tell, stopping.signal) ?? Promise.resolve()
  return async () => {
    stopping.abort()
    await watching
    await writing
  }
}

async function writeAll({ database, clock }: HearingMeans, waiting: Set<string>, wake: () => void): Promise<void> {
  while (waiting.size > 0) {
    const ids = [...waiting].slice(0, WRITTEN_MOST)
    for (const id of ids) waiting.delete(id)
    await askSoon(database, ids, clock.now())
    wake()
  }
}
