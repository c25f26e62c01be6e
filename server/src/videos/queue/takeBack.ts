import type { VideoDependencies } from '../job/dependencies.ts'
import { insist } from '../job/insist.ts'
import { LAPSE_MS } from '../job/video.ts'
import { noteNotTaken } from './store.ts'

/** Undoes submissions that may be recorded as sent although no provider took them. Their jobs wait for another turn. */
export function takeBack(
  dependencies: VideoDependencies,
  submissions: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  return insist(dependencies, signal, () => noteNotTaken(dependencies.database, submissions, LAPSE_MS))
}
