import { type InstallOptions, installPackages, isInstalled } from '../../../infra/npmPackages.ts'

/** Has the package.json and the lock file of the official client, of some 70 MB, which is not among the gateway's own packages. */
const FOLDER = import.meta.dirname

/** Says in one sentence, in the operator's terms, that the client is missing. */
export const CLUSTER_CLIENT_MISSING =
  'the driver "kubernetes" needs the client of Kubernetes, of 70 MB, which is not installed: run "./tollgate instances install", then start again'

/** Returns whether the client is installed in the version of this checkout. */
export function isClusterClientInstalled(): Promise<boolean> {
  return isInstalled(FOLDER)
}

/** Installs the client unless it is there; says whether it did. Throws `InstallFailure`. */
export function installClusterClient(options: Pick<InstallOptions, 'environment'>): Promise<boolean> {
  return installPackages({ folder: FOLDER, ...options })
}
