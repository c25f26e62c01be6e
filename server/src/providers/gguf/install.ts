import { type InstallOptions, installPackages, isInstalled } from '../../infra/npmPackages.ts'

/** Has the package.json and the lock file of the engine, of some 0.7 GB, which is not among the gateway's own packages. */
const FOLDER = import.meta.dirname

/** Says in one sentence, in the operator's terms, that the engine is missing. */
export const ENGINE_MISSING =
  'GGUF files need an engine of 0.7 GB that is not installed: run "tollgate models pull", then start again'

/** Returns whether the engine is installed in the version of this checkout. */
export function isEngineInstalled(): Promise<boolean> {
  return isInstalled(FOLDER)
}

/** Installs the engine unless it is there; says whether it did. Throws `InstallFailure`. */
export function installEngine(options: Pick<InstallOptions, 'environment'>): Promise<boolean> {
  return installPackages({ folder: FOLDER, ...options })
}
