/** The command lines of a machine, from the gateway to the app. No shell reads any of them. */

import type { MachineSpec } from '../driver.ts'
import { FILES_LEAST } from './hostShares.ts'
import type { KeptSpec } from './spec.ts'

/** The programs of the system that this driver needs, each with its path. */
export type Programs = Readonly<Record<(typeof PROGRAMS)[number], string>>

/** Of util-linux and coreutils, which are in every Linux distribution. */
export const PROGRAMS = ['flock', 'unshare', 'setpriv', 'prlimit', 'choom', 'mount', 'nice', 'rm'] as const

/** Where an app finds programs. */
export const APP_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** The exit status of `flock` where another has the lock. */
export const HELD_EXIT = 75

/** Tells whether a lock is held: {@link HELD_EXIT} if it is, else 0. */
export function heldLine(programs: Programs, lock: string): readonly string[] {
  return [programs.flock, '--nonblock', '--conflict-exit-code', String(HELD_EXIT), lock, 'true']
}

/** Memory of a removal, which grows with the depth of folders: no tree may take that of the host. */
const REMOVAL_BYTES = 1_000_000_000

/** Removes a folder with all that is in it, under a lock; {@link HELD_EXIT} where another has that. Gives way to everything else. */
export function removalLine(programs: Programs, lock: string, folder: string): readonly string[] {
  return [
    ...[programs.flock, '--nonblock', '--conflict-exit-code', String(HELD_EXIT), '--close', lock],
    ...[programs.nice, '-n', '19', programs.prlimit, `--as=${REMOVAL_BYTES}`, '--'],
    ...[programs.rm, '-rf', '--one-file-system', '--', folder],
  ]
}

/** How long a keeper waits for the lock, which a look at it takes for a moment. */
const LOCK_SECONDS = 5

/** An app gives way to the gateway and its database, where nothing else bounds its share of the processors. */
const NICENESS = 10

/** When the host runs out of memory, the system ends apps before the gateway and its database. The most that there is. */
const OOM_SCORE = 1_000

/**
 * The app's command, with `{model}` and `{port}` replaced, each word by itself. Null: the app has no command, or needs a model and got
 * none.
 */
export function appCommand({ command, model, port }: MachineSpec): readonly string[] | null {
  if (command === null || (model === null && command.some((word) => word.includes('{model}')))) return null
  // A function, since a text would have its `$&` replaced.
  return command.map((word) =>
    word.replaceAll(/\{(model|port)\}/g, (_, key) => (key === 'port' ? `${port}` : `${model}`)),
  )
}

/** The whole environment of the app. */
export function appEnvironment({ model, port }: MachineSpec, home: string): Record<string, string> {
  return { PATH: APP_PATH, HOME: home, PORT: String(port), ...(model === null ? {} : { MODEL: model }) }
}

/**
 * Starts a keeper, in namespaces of its own: of the network, of mounts, of names and of what processes share. As long as it lives, its
 * parent holds the lock, so that there is one at most.
 */
export function keeperLine(programs: Programs, lock: string, keeper: readonly string[]): readonly string[] {
  return [
    ...[programs.flock, '--wait', String(LOCK_SECONDS), '--close', lock],
    ...[programs.unshare, '--net', '--mount', '--propagation', 'private', '--ipc', '--uts', '--'],
    ...keeper,
  ]
}

/**
 * Starts the app from its keeper: as the first process of a process namespace, so that all others end with it; it ends with the keeper.
 * Without any right, under its own user, within its limits. `root` is a mount of the whole tree of files at a folder: the kernel makes no user
 * namespace for a process whose root is not that of its mounts, so that the app can't get rights in one.
 */
export function appLine(programs: Programs, { command, uid, limits }: KeptSpec, root: string, home: string) {
  const { tasks, files = FILES_LEAST, fileBytes, dataBytes } = limits
  return [
    ...[programs.setpriv, '--pdeathsig', 'KILL', '--'],
    ...[programs.unshare, '--pid', '--fork', '--kill-child=KILL', '--mount-proc'],
    ...[`--root=${root}`, `--wd=${home}`, '--'],
    // The kernel ignores a limit of 0 where it pipes dumps to a program, and dumps nothing anywhere where it is 1.
    ...[programs.prlimit, '--core=1', `--nproc=${tasks}`, `--fsize=${fileBytes}`, `--nofile=${files}`],
    ...(dataBytes === null ? [] : [`--data=${dataBytes}`]),
    ...['--', programs.nice, '-n', String(NICENESS), programs.choom, '-n', String(OOM_SCORE), '--'],
    // A change of user clears the signal that came from before.
    ...[
      programs.setpriv,
      '--pdeathsig',
      'KILL',
      `--reuid=${uid}`,
      `--regid=${uid}`,
      '--clear-groups',
      '--no-new-privs',
    ],
    ...['--inh-caps=-all', '--ambient-caps=-all', '--bounding-set=-all', '--'],
    ...command,
  ]
}
