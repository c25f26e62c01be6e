/** Control groups, where this host has them and we may write them: of cgroup v2, and of cgroup v1 for what v2 does not bound here. */

import { existsSync } from 'node:fs'
import { chmod, mkdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf } from '../../../infra/folder.ts'

/** The group of all machines, beneath the root of a tree. */
const PARENT = 'tollgate-instances'

/** The resources that groups can bound. */
export const CONTROLLERS = ['memory', 'cpu', 'pids'] as const
type Controller = (typeof CONTROLLERS)[number]

/** The period over which the share of the processors is counted. */
const PERIOD_MICROSECONDS = 100_000

/** Cgroup v1 counts the memory of TCP apart. */
const TCP_MEMORY = 'memory.kmem.tcp.limit_in_bytes'

/** A kernel without swap has no bound for it, and not every one has that of TCP. */
const OPTIONAL: readonly string[] = ['memory.swap.max', 'memory.memsw.limit_in_bytes', TCP_MEMORY]

export interface GroupBounds {
  readonly memoryBytes: number
  /** Of TCP connections, where they are counted apart. */
  readonly tcpBytes: number
  readonly cpus: number
  readonly tasks: number
}

export interface ControlGroups {
  /** The resources that the groups bound. */
  readonly bounds: ReadonlySet<Controller>
  /** The memory of TCP connections is counted apart, and bounded. */
  readonly boundsTcp: boolean
  /** Makes the groups of a machine, or finds them; returns their folders. */
  make(name: string, bounds: GroupBounds): Promise<readonly string[]>
  foldersOf(name: string): readonly string[]
}

/** A tree of groups. A host has one of version 2, of version 1 one for each controller, or both. */
interface Tree {
  readonly version: 1 | 2
  /** The folder of the group of all machines. */
  readonly parent: string
  readonly bounds: ReadonlySet<Controller>
}

/** Finds the trees in a text as `/proc/self/mounts` has it; null: there is none, or none can be written. */
export async function openControlGroups(mounts: string): Promise<ControlGroups | null> {
  const mounted = mounts.split('\n').map((line) => line.split(' '))
  const trees: Tree[] = []
  const [, unified] = mounted.find(([, , type]) => type === 'cgroup2') ?? []
  const second = unified === undefined ? null : await openUnified(unified)
  if (second !== null) trees.push(second)
  for (const [, root = '', type, options = ''] of mounted) {
    if (type !== 'cgroup') continue
    const named = new Set(options.split(','))
    const wanted = CONTROLLERS.filter((each) => named.has(each) && !trees.some(({ bounds }) => bounds.has(each)))
    const first = wanted.length === 0 ? null : await openLegacy(root, wanted)
    if (first !== null) trees.push(first)
  }
  if (trees.length === 0) return null
  const foldersOf = (name: string) => trees.map(({ parent }) => join(parent, name))
  return {
    bounds: new Set(trees.flatMap(({ bounds }) => [...bounds])),
    boundsTcp: trees.some(({ parent }) => existsSync(join(parent, TCP_MEMORY))),
    foldersOf,
    async make(name, given) {
      for (const tree of trees) await makeGroup(tree, join(tree.parent, name), given)
      return foldersOf(name)
    },
  }
}

async function openUnified(root: string): Promise<Tree | null> {
  const parent = await openParent(root)
  if (parent === null) return null
  // Each level hands its controllers on by itself. In a container the first may have processes, and must not.
  for (const folder of [root, parent]) await enable(folder)
  const listed = await readFile(join(parent, 'cgroup.subtree_control'), 'utf8').catch(() => '')
  return { version: 2, parent, bounds: new Set(CONTROLLERS.filter((each) => listed.split(/\s+/).includes(each))) }
}

async function openLegacy(root: string, wanted: readonly Controller[]): Promise<Tree | null> {
  const parent = await openParent(root)
  if (parent === null) return null
  // The bound of the processors takes a kernel with an option for it.
  const bounds = new Set(wanted.filter((each) => existsSync(join(parent, LEGACY_FILES[each]))))
  return bounds.size === 0 ? null : { version: 1, parent, bounds }
}

/** Makes the group of all machines. Apps must not list it: its folders have the names of the machines. */
async function openParent(root: string): Promise<string | null> {
  const parent = join(root, PARENT)
  try {
    await mkdir(parent, { recursive: true })
    await chmod(parent, 0o700)
  } catch {
    return null
  }
  return parent
}

async function makeGroup({ version, bounds }: Tree, folder: string, given: GroupBounds): Promise<void> {
  await mkdir(folder, { recursive: true })
  for (const [file, text] of groupFiles(version, bounds, given)) {
    await writeFile(join(folder, file), text).catch((error: unknown) => {
      if (!OPTIONAL.includes(file)) throw error
    })
  }
}

/** The file of cgroup v1 by which a controller bounds. */
const LEGACY_FILES: Readonly<Record<Controller, string>> = {
  memory: 'memory.limit_in_bytes',
  cpu: 'cpu.cfs_quota_us',
  pids: 'pids.max',
}

type GroupFile = readonly [file: string, text: string]

/** The files of a group that bound it, by the controllers that it has, in the order in which they are written. */
export function groupFiles(
  version: 1 | 2,
  bounds: ReadonlySet<Controller>,
  { memoryBytes, tcpBytes, cpus, tasks }: GroupBounds,
): GroupFile[] {
  const [memory, quota] = [String(memoryBytes), String(Math.round(cpus * PERIOD_MICROSECONDS))]
  const files: Readonly<Record<Controller, readonly GroupFile[]>> = {
    memory:
      version === 1
        ? [
            [LEGACY_FILES.memory, memory],
            ['memory.memsw.limit_in_bytes', memory],
            [TCP_MEMORY, String(tcpBytes)],
          ]
        : [
            ['memory.max', memory],
            ['memory.swap.max', '0'],
            ['memory.oom.group', '1'],
          ],
    cpu:
      version === 1
        ? [
            ['cpu.cfs_period_us', String(PERIOD_MICROSECONDS)],
            [LEGACY_FILES.cpu, quota],
          ]
        : [['cpu.max', `${quota} ${PERIOD_MICROSECONDS}`]],
    pids: [['pids.max', String(tasks)]],
  }
  return CONTROLLERS.filter((each) => bounds.has(each)).flatMap((each) => files[each])
}

async function enable(folder: string): Promise<void> {
  for (const controller of CONTROLLERS) {
    await writeFile(join(folder, 'cgroup.subtree_control'), `+${controller}`).catch(() => {})
  }
}

/** Puts processes, and all that they start from now on, into a group. Rejects where one has ended. */
export async function enterGroup(folder: string, pids: readonly number[]): Promise<void> {
  // The kernel takes one at a time.
  for (const pid of pids) await writeFile(join(folder, 'cgroup.procs'), String(pid))
}

/** Ends every process of a group, however they hide. Does nothing where there is no such group, or the kernel can't. */
export async function killGroup(folder: string): Promise<void> {
  await writeFile(join(folder, 'cgroup.kill'), '1', { flag: 'r+' }).catch(() => {})
}

/** Removes the group of a machine that has ended; false: something runs in it. */
export async function removeGroup(folder: string): Promise<boolean> {
  try {
    await rmdir(folder)
  } catch (error) {
    return codeOf(error) === 'ENOENT'
  }
  return true
}
