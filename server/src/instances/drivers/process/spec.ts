/** The description of a machine of this driver, as it stands in its folder, and the places of its files. */

import { join } from 'node:path'

/** The app that the keeper of a machine starts, and its bounds. Written once, before anything is started. */
export interface KeptSpec {
  /** Words of the operator's, with the model's name in place of `{model}`. Never read by a shell. */
  readonly command: readonly string[]
  readonly port: number
  readonly environment: Readonly<Record<string, string>>
  /** Of the app, and of nothing else on this host. */
  readonly uid: number
  /** The folders of its control groups. None: this host has none that we may write. */
  readonly groups: readonly string[]
  /** Folders that the app finds empty. */
  readonly hidden: readonly string[]
  readonly limits: SystemLimits
}

/** The limits beyond which the system refuses a process of the app. */
export interface SystemLimits {
  /** Processes and threads of the app together. */
  readonly tasks: number
  /** Open files of each process. Absent in a spec of an earlier version. */
  readonly files?: number
  /** The largest file. */
  readonly fileBytes: number
  /** Memory that one process has for itself; null: a control group bounds that of all together. */
  readonly dataBytes: number | null
}

/** The files of a machine. Only `home` is the app's. */
export interface MachineFiles {
  readonly folder: string
  /** The keeper's parent holds a lock on it as long as the keeper lives. */
  readonly lock: string
  readonly spec: string
  /** Written by the keeper before it starts the app: the machine has been started, and never is again. */
  readonly started: string
  /** Written by the keeper once the app has answered. */
  readonly answered: string
  /** Written first when it is deleted: nothing is started any more. */
  readonly deleting: string
  /** Where the keeper takes connections for the app. */
  readonly socket: string
  readonly home: string
}

export function filesOf(directory: string, name: string): MachineFiles {
  const folder = join(directory, name)
  const at = (file: string) => join(folder, file)
  return {
    folder,
    lock: at('lock'),
    spec: at('spec.json'),
    started: at('started'),
    answered: at('answered'),
    deleting: at('deleting'),
    socket: at('app.sock'),
    home: at('home'),
  }
}

/** Names that we choose: no path leads anywhere else by one. */
export function isMachineName(name: string): boolean {
  return /^tollgate-[0-9a-f-]{36}$/.test(name)
}
