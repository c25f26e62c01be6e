import type { InstanceDependencies } from '../job/dependencies.ts'
import { countLive } from './store.ts'

/**
 * Reports instances that still live where the settings have no section `instances`: nothing bills them, ends them or deletes their
 * machines then.
 */
export async function reportForgotten({
  database,
  log,
}: Pick<InstanceDependencies, 'database' | 'log'>): Promise<void> {
  const instances = await countLive(database)
  if (instances === 0) return
  log.error(
    { instances },
    "instances live, and the settings have no section 'instances': nobody is billed for them, nobody can delete them, and their machines run on. Start with the section until they have ended",
  )
}
