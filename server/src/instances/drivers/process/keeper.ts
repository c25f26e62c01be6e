/**
 * The program that keeps one machine: it runs as root, in the machine's namespaces of network and mounts and outside of that of its
 * processes. It hides what the app must not find, refuses system calls to it, starts it, and carries bytes between a socket that
 * only root may reach and the app's port. It ends with the app, and the app with it. Its arguments are the folder of all machines
 * and the name of its own.
 */

import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import { systemClock } from '../../../infra/clock.ts'
import { absentAs, writeSecretFile } from '../../../infra/folder.ts'
import { raiseLoopback } from '../../../infra/loopback.ts'
import { leaveKeyring, refuseSystemCalls } from '../../../infra/systemCalls.ts'
import { sleep } from '../../../lib/time.ts'
import { appLine, type Programs } from './commandLines.ts'
import { enterGroup } from './controlGroups.ts'
import { findPrograms } from './host.ts'
import { lookUpProcess } from './processTable.ts'
import { filesOf, type KeptSpec, type MachineFiles } from './spec.ts'

/** Connections to the app at one time. */
const CONNECTIONS_MOST = 512

/** Between two looks whether the app takes connections. */
const LOOK_MS = 200

/** The largest of the folders for files that are lost with the machine. */
const SCRATCH = 'size=64m'

/** Folders in which programs leave sockets and files for everybody. The app finds them empty, and its own. */
const SCRATCH_FOLDERS = ['/run', '/tmp', '/var/tmp', '/dev/shm', '/dev/mqueue'] as const

/** Where the tree of files is mounted once more, as the app's root. In the empty folder over `/run`: no deletion of ours reaches it. */
const ROOT = '/run/root'

/** Terminals have a folder of the app's own, and a bound: all of the host share some 4,000. */
const TERMINALS_FOLDER = '/dev/pts'
const TERMINALS = 'newinstance,nosuid,noexec,mode=0620,ptmxmode=0666,max=64'

/**
 * Devices that lead to the hypervisor or show the kernel's log, and that some hosts let everybody open; and the socket of the
 * host's log, where it does not lie in `/run`.
 */
const HIDDEN_DEVICES = ['kvm', 'vhost-net', 'vhost-vsock', 'vsock', 'userfaultfd', 'kmsg', 'log'].map(
  (name) => `/dev/${name}`,
)

async function main(): Promise<void> {
  const [directory = '', name = ''] = process.argv.slice(2)
  const files = filesOf(directory, name)
  const text = await readFile(files.spec, 'utf8').catch(absentAs(null))
  if (text === null || existsSync(files.deleting) || existsSync(files.started)) return
  const spec = JSON.parse(text) as KeptSpec
  const programs = findPrograms()
  const self = await lookUpProcess(process.pid)
  if (self === null) throw new Error('/proc does not show the process that looks')
  // The holder of the lock leads the group of processes. Left in the control group of the gateway's service, it would end with the service,
  // and the machine with it. The number is never that of a later process: it is taken as long as this one is in the group.
  for (const group of spec.groups) await enterGroup(group, [self.group, self.pid])
  await writeSecretFile(files.started, JSON.stringify(self))
  // A process that deletes the machine has written so before it looked for `started`: one of the two is seen.
  if (existsSync(files.deleting)) return
  raiseLoopback()
  await hide(programs, spec.hidden)
  await makeRoot(programs)
  await openSocket(files, spec.port)
  leaveKeyring()
  refuseSystemCalls()
  await runApp(programs, spec, files)
}

/** Mounts empty folders, and the device of nothing, over those that the app must not have, in this namespace alone. */
async function hide(programs: Programs, folders: readonly string[]): Promise<void> {
  const scratch = SCRATCH_FOLDERS.filter((folder) => existsSync(folder))
  for (const folder of scratch) {
    await mountEmpty(programs, folder, `${SCRATCH},mode=${folder === '/run' ? '0755' : '1777'}`)
  }
  for (const folder of folders) if (existsSync(folder)) await mountEmpty(programs, folder, 'ro,size=4k,mode=0700')
  for (const device of HIDDEN_DEVICES.filter((path) => existsSync(path)))
    await mountAt(programs, ['--bind', '/dev/null', device])
  if (existsSync(TERMINALS_FOLDER))
    await mountAt(programs, ['-t', 'devpts', '-o', TERMINALS, 'devpts', TERMINALS_FOLDER])
}

/** Mounts the tree of files, as it is by now, at the app's root. */
async function makeRoot(programs: Programs): Promise<void> {
  await mkdir(ROOT, { mode: 0o700, recursive: true })
  await mountAt(programs, ['--rbind', '/', ROOT])
}

function mountEmpty(programs: Programs, folder: string, options: string): Promise<void> {
  return mountAt(programs, ['-t', 'tmpfs', '-o', `nosuid,nodev,${options}`, 'tmpfs', folder])
}

function mountAt({ mount }: Programs, words: readonly string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const mounting = spawn(mount, words, { stdio: 'ignore' })
    mounting.on('error', reject)
    mounting.on('exit', (code) => (code === 0 ? resolve() : reject(new Error(`mount ended with ${code}`))))
  })
}

async function openSocket({ socket }: MachineFiles, port: number): Promise<void> {
  const server = createServer({ allowHalfOpen: true }, (outside) => carry(outside, port))
  server.maxConnections = CONNECTIONS_MOST
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(socket, resolve)
  })
  await chmod(socket, 0o600)
}

/** Carries bytes both ways, no faster than they are taken, until both ends have ended. */
function carry(outside: Socket, port: number): void {
  const inside = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  for (const [one, other] of [
    [outside, inside],
    [inside, outside],
  ] as const) {
    one.pipe(other)
    one.on('error', () => other.destroy())
    one.on('close', () => other.destroySoon())
  }
}

async function runApp(programs: Programs, spec: KeptSpec, { answered, home }: MachineFiles): Promise<void> {
  const [path = '', ...words] = appLine(programs, spec, ROOT, home)
  // Its standard input and outputs are nothing, and no terminal controls it.
  const app = spawn(path, words, { cwd: '/', env: spec.environment, stdio: 'ignore' })
  let hasEnded = false
  const ended = new Promise<void>((resolve) => {
    const end = () => {
      hasEnded = true
      resolve()
    }
    app.on('error', end)
    app.on('exit', end)
  })
  while (!hasEnded && !(await takesConnections(spec.port))) await sleep(systemClock, LOOK_MS)
  if (!hasEnded) await writeFile(answered, '', { mode: 0o600 })
  await ended
}

function takesConnections(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const trying = connect({ port, host: '127.0.0.1' })
    trying.on('connect', () => {
      trying.destroy()
      resolve(true)
    })
    trying.on('error', () => resolve(false))
  })
}

main().then(
  () => process.exit(0),
  (error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
    process.exit(1)
  },
)
