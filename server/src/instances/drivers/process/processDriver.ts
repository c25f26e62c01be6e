import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, chown, link, mkdir, open, readdir, readFile, rm, unlink, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import type { ProcessDriverSettings } from '../../../catalog/offering.ts'
import { absentAs, codeOf, FILE_MODE } from '../../../infra/folder.ts'
import { UNREPORTED_CRASHES } from '../../../infra/ownProcess.ts'
import { runProgram } from '../../../infra/runProgram.ts'
import type { Log } from '../../../lib/log.ts'
import { type Clock, sleep } from '../../../lib/time.ts'
import { CreateRefused, type DriverMachine, type InstanceDriver, type MachineSpec } from '../driver.ts'
import { APP_PATH, appCommand, appEnvironment, HELD_EXIT, heldLine, keeperLine } from './commandLines.ts'
import { killGroup, removeGroup } from './controlGroups.ts'
import type { ProcessHost } from './host.ts'
import { type KnownProcess, killKnown, killProcessesOf, processesOf } from './processTable.ts'
import { filesOf, isMachineName, type KeptSpec, type MachineFiles } from './spec.ts'
import { openSweeper, type Sweeper } from './sweeper.ts'
import { freeUid, takeUid, uidsOf } from './uids.ts'

const KEEPER_FILE = fileURLToPath(new URL('./keeper.ts', import.meta.url))

const GIGABYTE = 1_000_000_000

/** The holder of a machine's lock, threads of its keeper, and the programs that this starts: they are in the control group of its app. */
const KEEPER_TASKS = 32

/** Between two looks whether all of a machine has ended, and how many: what still runs then is killed at the next question. */
export const END_LOOK_MS = 50
const END_LOOKS = 40

export interface ProcessDriverDependencies {
  readonly settings: ProcessDriverSettings
  readonly host: ProcessHost
  readonly clock: Clock
  readonly log: Log
  /** Folders with secrets of ours, absolute. Apps find them empty. */
  readonly hidden: readonly string[]
  /** For tests that kill. */
  readonly reached?: (step: 'written' | 'launched') => Promise<void> | void
}

/**
 * Returns the driver that runs apps on this host, each under a keeper (`keeper.ts`). All that it knows is in the folders of the machines
 * and in the system's table of processes, so that any process of the gateway finds what another has started. A machine is started once:
 * its keeper runs under a lock, and writes that it has started.
 */
export function processDriver(dependencies: ProcessDriverDependencies): InstanceDriver {
  const { settings, host, clock, log } = dependencies
  const sweeper = openSweeper({ directory: settings.directory, programs: host.programs, clock, log })
  const status: InstanceDriver['status'] = async (name, signal) => {
    const files = filesFor(settings, name)
    if (!existsSync(files.folder)) return null
    if (await isHeld(dependencies, files, signal)) {
      return machineOf(name, files, existsSync(files.answered) ? 'running' : 'creating')
    }
    // Without a keeper, one that has not started yet is still to be made.
    return existsSync(files.started) ? machineOf(name, files, 'ended') : null
  }
  return {
    kind: 'process',
    place: host.place,
    status,
    async create(name, spec, signal) {
      const files = filesFor(settings, name)
      const known = await status(name, signal)
      if (known !== null) return known
      await prepare(dependencies, name, files, spec)
      await dependencies.reached?.('written')
      launch(dependencies, name, files)
      await dependencies.reached?.('launched')
      return machineOf(name, files, 'creating')
    },
    async delete(name, signal) {
      await remove(dependencies, sweeper, name, filesFor(settings, name), signal)
    },
    async list(signal) {
      // Removes homes that an earlier process left behind: lists are asked for all the time.
      sweeper.sweep()
      const names = (await readdir(settings.directory)).filter(isMachineName)
      const machines: DriverMachine[] = []
      for (const name of names) {
        machines.push((await status(name, signal)) ?? machineOf(name, filesFor(settings, name), 'creating'))
      }
      return machines
    },
  }
}

function filesFor({ directory }: ProcessDriverSettings, name: string): MachineFiles {
  if (!isMachineName(name)) throw new Error('a machine has a name that is none of ours')
  return filesOf(directory, name)
}

function machineOf(name: string, files: MachineFiles, state: DriverMachine['state']): DriverMachine {
  return { name, state, appUrl: `unix:${files.socket}`, terminalUrl: null }
}

/** Returns true while the keeper of a machine lives: it holds the lock of the machine. */
async function isHeld({ host, clock }: ProcessDriverDependencies, { lock }: MachineFiles, signal: AbortSignal) {
  if (!existsSync(lock)) return false
  const [path = '', ...args] = heldLine(host.programs, lock)
  const { exitCode } = await runProgram({ path, args, input: '', signal, outputBytesMost: 1_024, clock })
  if (exitCode !== 0 && exitCode !== HELD_EXIT) throw new Error(`flock ended with the status ${exitCode}`)
  return exitCode === HELD_EXIT
}

/** Writes all that the keeper needs. May be done again after any part of it. */
async function prepare(
  { settings, host, hidden }: ProcessDriverDependencies,
  name: string,
  files: MachineFiles,
  spec: MachineSpec,
): Promise<void> {
  const command = appCommand(spec)
  if (command === null) throw new CreateRefused()
  await mkdir(files.folder, { mode: 0o711 }).catch(exists)
  if (existsSync(files.deleting)) throw new Error('the machine is being deleted')
  // Not its user's mask's: the app reaches its home through it, and lists nothing.
  await chmod(files.folder, 0o711)
  await (await open(files.lock, 'a', FILE_MODE)).close()
  const uid = await takeUid(settings.directory, name, settings)
  if (uid === null) throw new CreateRefused(true)
  await mkdir(files.home, { mode: 0o700 }).catch(exists)
  const { memoryBytes, cpus, tasksMost: tasks } = settings
  const bounds = { memoryBytes, tcpBytes: host.tcpBytes, cpus, tasks: tasks + KEEPER_TASKS }
  const groups = (await host.groups?.make(name, bounds)) ?? []
  const kept: KeptSpec = {
    ...{ command, uid, groups, hidden, port: spec.port },
    environment: appEnvironment(spec, files.home),
    limits: {
      tasks,
      files: host.filesMost,
      fileBytes: Math.max(spec.diskGb, 1) * GIGABYTE,
      dataBytes: host.groups?.bounds.has('memory') ? null : memoryBytes,
    },
  }
  await writeOnce(files.spec, JSON.stringify(kept))
  // Another process may have written first, with another user.
  const first = JSON.parse(await readFile(files.spec, 'utf8')) as KeptSpec
  await chown(files.home, first.uid, first.uid)
}

function exists(error: unknown): void {
  if (codeOf(error) !== 'EEXIST') throw error
}

/** Writes a file whole, unless it is there. */
async function writeOnce(path: string, text: string): Promise<void> {
  const unfinished = `${path}.${process.pid}`
  await writeFile(unfinished, text, { mode: FILE_MODE })
  await link(unfinished, path).catch(exists)
  await unlink(unfinished)
}

/** Starts the keeper, in a session of its own: it outlives this process. */
function launch({ settings, host }: ProcessDriverDependencies, name: string, { lock }: MachineFiles): void {
  const keeper = [process.execPath, '--smol', KEEPER_FILE, settings.directory, name]
  const [path = '', ...words] = keeperLine(host.programs, lock, keeper)
  const env = { PATH: APP_PATH, ...UNREPORTED_CRASHES }
  const child = spawn(path, words, { cwd: '/', env, stdio: 'ignore', detached: true })
  // Its machine is then one that nobody has started, and is asked for again.
  child.on('error', () => {})
  child.unref()
}

/** Ends all processes of a machine, and removes what there is of it. Begins anew where it left off. */
async function remove(
  dependencies: ProcessDriverDependencies,
  sweeper: Sweeper,
  name: string,
  files: MachineFiles,
  signal: AbortSignal,
): Promise<void> {
  const { directory } = dependencies.settings
  const groups = dependencies.host.groups?.foldersOf(name) ?? []
  if (existsSync(files.folder)) await writeFile(files.deleting, '', { mode: FILE_MODE })
  let uids: readonly number[]
  for (let looks = 0; ; looks += 1) {
    signal.throwIfAborted()
    // Anew each time: meanwhile another process may have removed the machine, and its user be that of the next one.
    uids = await uidsOf(directory, name)
    await killAll(files, uids, groups)
    if (await hasEnded(dependencies, files, uids, groups, signal)) break
    if (looks >= END_LOOKS) return
    await sleep(dependencies.clock, END_LOOK_MS)
  }
  // A keeper that still waits for the lock finds no spec, and starts nothing.
  if (!(await sweeper.take(name, files.home))) return sweeper.sweep()
  await rm(files.spec, { force: true })
  await rm(files.folder, { recursive: true, force: true })
  for (const uid of uids) await freeUid(directory, uid, name)
  sweeper.sweep()
}

async function killAll(files: MachineFiles, uids: readonly number[], groups: readonly string[]): Promise<void> {
  for (const group of groups) await killGroup(group)
  const started = await readFile(files.started, 'utf8').catch(absentAs(null))
  if (started !== null && started !== '') await killKnown(JSON.parse(started) as KnownProcess)
  for (const uid of uids) await killProcessesOf(uid)
}

async function hasEnded(
  dependencies: ProcessDriverDependencies,
  files: MachineFiles,
  uids: readonly number[],
  groups: readonly string[],
  signal: AbortSignal,
): Promise<boolean> {
  for (const uid of uids) if ((await processesOf(uid)).length > 0) return false
  if (await isHeld(dependencies, files, signal)) return false
  const removed = await Promise.all(groups.map(removeGroup))
  return removed.every(Boolean)
}
