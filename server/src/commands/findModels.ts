import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Discovered } from '../catalog/discovered.ts'
import type { Log } from '../kernel/log.ts'
import { discover } from '../upstream/discover.ts'
import type { ServeOptions, Surroundings } from './surroundings.ts'

/** How long local model servers are looked for: loopback answers in milliseconds, and nobody likes a slow start. */
const DISCOVERY_TIMEOUT_MS = 500

/** Each file found in the models folder is a process of its own with the whole model in memory. */
const DISCOVERED_FILES_MAX = 4

/** Looks for local model servers and GGUF files, where the settings allow it. */
export async function findModels(
  { config }: ServeOptions,
  clock: Surroundings['clock'],
  log: Log,
): Promise<readonly Discovered[]> {
  if (!config.settings.fixed.discovery) return []
  const modelsFolder = join(config.dataDirectory, 'models')
  await mkdir(modelsFolder, { recursive: true })
  const skipPorts = [config.port, config.adminPort]
  const found = await discover({ clock, skipPorts, modelsFolder, timeoutMs: DISCOVERY_TIMEOUT_MS })
  const files = found.filter(({ kind }) => kind === 'gguf')
  const tooMany = new Set<Discovered>(files.slice(DISCOVERED_FILES_MAX))
  if (tooMany.size > 0) {
    const advice = `${tooMany.size} files in ${modelsFolder} are left out; name those to be served in a tollgate.yaml`
    log.warn({ served: DISCOVERED_FILES_MAX, leftOut: tooMany.size }, advice)
  }
  return found.filter((each) => !tooMany.has(each))
}
