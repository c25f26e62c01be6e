/** The needs of this driver on its host, and the words for an operator where one is missing. */

import { chmod, mkdir, readFile, stat } from 'node:fs/promises'
import { dirname, resolve, sep } from 'node:path'
import type { ProcessDriverSettings } from '../../../catalog/offering.ts'
import { absentAs, readOrWriteOnce } from '../../../infra/folder.ts'
import { findProgram } from '../../../infra/program.ts'
import { runProgram } from '../../../infra/runProgram.ts'
import { canRefuseSystemCalls } from '../../../infra/systemCalls.ts'
import type { Log } from '../../../lib/log.ts'
import { type Clock, SECOND_MS, type Timers } from '../../../lib/time.ts'
import { APP_PATH, PROGRAMS, type Programs } from './commandLines.ts'
import { CONTROLLERS, type ControlGroups, openControlGroups } from './controlGroups.ts'
import { filesOfProcess, filesWarning, readHostTotals, tcpBytesOfApp, tcpWarning } from './hostShares.ts'
import type { UidRange } from './uids.ts'

/** Making namespaces takes milliseconds. */
const TRIAL_MS = 10 * SECOND_MS

export interface ProcessHost {
  readonly programs: Programs
  /** Tells this folder of machines from all others. */
  readonly place: string
  /** Null: limits of the system alone bound the machines. */
  readonly groups: ControlGroups | null
  /** The most files that a process of an app may open. */
  readonly filesMost: number
  /** The most memory of the TCP connections of an app, where a group counts it apart. */
  readonly tcpBytes: number
}

export interface HostDependencies {
  readonly clock: Clock
  readonly log: Log
  readonly uid: number | undefined
  readonly newPlace: () => string
  /** Folders with secrets of ours, absolute. */
  readonly hidden: readonly string[]
}

type HostSettings = Pick<ProcessDriverSettings, 'directory' | 'firstUid' | 'machinesMost'>
type BoundedSettings = HostSettings & Pick<ProcessDriverSettings, 'tasksMost' | 'memoryBytes'>

/**
 * Returns the programs that start machines, and changes nothing. Throws, with what to do, where this process is not root, a program is
 * missing, the settings clash with the host, or the host makes no namespaces.
 */
export async function checkHost(
  settings: HostSettings,
  { clock, uid }: Pick<HostDependencies, 'uid'> & { readonly clock: Timers },
): Promise<Programs> {
  if (process.platform !== 'linux') throw refused('works on Linux alone: choose the driver "command"')
  if (uid !== 0) {
    throw refused(
      'starts each app under a user of its own, which takes root: start Tollgate as root, or choose the driver "command"',
    )
  }
  if (!canRefuseSystemCalls()) {
    throw refused('needs x64 or arm64, and a kernel with filters of system calls (CONFIG_SECCOMP_FILTER)')
  }
  const programs = findPrograms()
  await checkUsers(settings)
  await checkWay(settings.directory)
  await tryNamespaces(programs, clock)
  return programs
}

/**
 * Makes sure that machines can be started here, and says what bounds them. Throws, with what to do, where {@link checkHost} does, and where
 * the folder of machines can't be used.
 */
export async function openHost(
  settings: BoundedSettings,
  { clock, log, uid, newPlace, hidden }: HostDependencies,
): Promise<ProcessHost> {
  const programs = await checkHost(settings, { clock, uid })
  await openDirectory(settings.directory, hidden)
  const groups = await openControlGroups(await readFile('/proc/self/mounts', 'utf8'))
  const bounded: ReadonlySet<string> = groups?.bounds ?? new Set<string>()
  const unbounded = CONTROLLERS.filter((each) => !bounded.has(each))
  if (unbounded.length > 0) {
    const words =
      'instances: no control group of this host bounds these in apps; limits of the system bound a part of them. Without `memory`, an app ' +
      'can take all memory of the host (docs/instances.md, "Apps on this host")'
    log.warn({ unbounded }, words)
  }
  const totals = await readHostTotals()
  const tcp = groups?.boundsTcp === true ? tcpWarning(settings, totals) : null
  for (const warning of [filesWarning(settings, totals), tcp]) if (warning !== null) log.warn({}, warning)
  const { text: place } = await readOrWriteOnce(settings.directory, 'place', String(process.pid), newPlace)
  const shares = { filesMost: filesOfProcess(settings, totals), tcpBytes: tcpBytesOfApp(settings, totals) }
  return { programs, groups, place, ...shares }
}

/** The paths of the programs. Throws where one is missing. */
export function findPrograms(): Programs {
  const found = PROGRAMS.map((name) => [name, findProgram(name, APP_PATH)] as const)
  const missing = found.filter(([, path]) => path === null).map(([name]) => name)
  if (missing.length > 0) {
    throw refused(`needs the programs ${missing.join(', ')}: install the packages util-linux, mount and coreutils`)
  }
  return Object.fromEntries(found) as Programs
}

async function checkUsers(range: UidRange): Promise<void> {
  const [users, ...granted] = await Promise.all(
    ['/etc/passwd', '/etc/subuid', '/etc/subgid'].map((path) => readFile(path, 'utf8').catch(() => '')),
  )
  const clash = findClash(range, users ?? '', granted.join('\n'))
  if (clash !== null) throw refused(`must not share user ids: ${clash}; name another 'first_uid'`)
}

/**
 * Says which user of this host has an id of a range, as itself (a text as in `/etc/passwd`), or granted for its containers (as in
 * `/etc/subuid`). Null: nobody.
 */
export function findClash({ firstUid, machinesMost }: UidRange, users: string, granted: string): string | null {
  const end = firstUid + machinesMost
  const read = (text: string) => text.split('\n').map((line) => line.split(':'))
  const taken = read(users).find(([, , uid]) => Number(uid) >= firstUid && Number(uid) < end)
  if (taken !== undefined) return `${taken[0]} has ${taken[2]}`
  const lent = read(granted).find(([, first, count]) => Number(first) < end && Number(first) + Number(count) > firstUid)
  return lent === undefined ? null : `${lent[0]} has ${lent[2]} from ${lent[1]} on (/etc/subuid, /etc/subgid)`
}

async function openDirectory(directory: string, hidden: readonly string[]): Promise<void> {
  for (const folder of hidden) {
    if (isWithin(directory, folder) || isWithin(folder, directory)) {
      throw refused(`keeps its folder apart from ${folder}: name another 'directory'`)
    }
  }
  await mkdir(directory, { recursive: true })
  const { uid } = await stat(directory)
  if (uid !== 0) throw refused(`needs a folder of root's: ${directory} belongs to another user`)
  // Those above it that were not there before.
  await checkWay(directory)
  // Apps reach their own folder by its path, and can't list those of others.
  await chmod(directory, 0o711)
}

/** Refuses a folder that apps can't reach. One above it that is not there yet is passed over. */
async function checkWay(directory: string): Promise<void> {
  for (let above = dirname(directory); ; above = dirname(above)) {
    const found = await stat(above).catch(absentAs(null))
    if (found !== null && (found.mode & 0o001) === 0) {
      throw refused(
        `needs a folder that apps can reach, such as '/var/lib/tollgate-instances', and users other than root can't enter ${above}: name another 'directory'`,
      )
    }
    if (above === dirname(above)) return
  }
}

function isWithin(path: string, folder: string): boolean {
  const [inner, outer] = [resolve(path), resolve(folder)]
  return inner === outer || inner.startsWith(outer.endsWith(sep) ? outer : `${outer}${sep}`)
}

async function tryNamespaces({ unshare }: Programs, clock: Timers): Promise<void> {
  const late = new AbortController()
  const cancel = clock.after(TRIAL_MS, () => late.abort())
  const args = ['--net', '--mount', '--ipc', '--uts', '--pid', '--fork', '--mount-proc', '--root=/', '--', 'true']
  const end = await runProgram({ path: unshare, args, input: '', signal: late.signal, outputBytesMost: 1_024, clock })
    .catch(() => null)
    .finally(cancel)
  if (end?.exitCode === 0) return
  throw refused(
    'needs namespaces of its own for each app, and this host refuses them: in a container, give it CAP_SYS_ADMIN and CAP_SYS_CHROOT, or choose the driver "command"',
  )
}

function refused(reason: string): Error {
  return new Error(`instances.driver: 'process' ${reason}`)
}
