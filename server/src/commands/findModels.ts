import { join } from 'node:path'
import type { Discovered } from '../catalog/discovered.ts'
import type { Config } from '../config/config.ts'
import type { Log } from '../lib/log.ts'
import type { Clock } from '../lib/time.ts'
import { discover } from '../providers/discover.ts'
import { ENGINE_MISSING, isEngineInstalled } from '../providers/gguf/install.ts'

/** How long local model servers are looked for: loopback answers in milliseconds, and nobody likes a slow start. */
const DISCOVERY_TIMEOUT_MS = 500

/** Each file found in the models folder is a process of its own with the whole model in memory. */
const DISCOVERED_FILES_MAX = 4

/** Looks for local model servers and GGUF files, where the settings allow it. */
export async function findModels(config: Config, clock: Clock, log: Pick<Log, 'warn'>): Promise<readonly Discovered[]> {
  if (!config.settings.fixed.discovery) return []
  const modelsFolder = join(config.dataDirectory, 'models')
  const skipPorts = [config.port, config.adminPort]
  const found = await discover({ clock, skipPorts, modelsFolder, timeoutMs: DISCOVERY_TIMEOUT_MS })
  const files = found.filter(({ kind }) => kind === 'gguf')
  if (files.length > 0 && !(await isEngineInstalled())) {
    log.warn({ leftOut: files.length }, `the files in ${modelsFolder} are not served: ${ENGINE_MISSING}`)
    return found.filter(({ kind }) => kind !== 'gguf')
  }
  const tooMany = new Set<Discovered>(files.slice(DISCOVERED_FILES_MAX))
  if (tooMany.size > 0) {
    const advice = `${tooMany.size} files in ${modelsFolder} are left out; name those to be served in a tollgate.yaml`
    log.warn({ served: DISCOVERED_FILES_MAX, leftOut: tooMany.size }, advice)
  }
  return found.filter((each) => !tooMany.has(each))
}
