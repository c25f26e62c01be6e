/** Apps that are really started on this host by the driver `process`, where the tests run as root. */

import { afterAll, beforeAll } from 'bun:test'
import { spawnSync } from 'node:child_process'
import { chmodSync, copyFileSync, existsSync, linkSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { ProcessDriverSettings } from '../src/catalog/offering.ts'
import { systemClock } from '../src/infra/clock.ts'
import type { DriverMachine, InstanceDriver, MachineSpec } from '../src/instances/drivers/driver.ts'
import { openHost } from '../src/instances/drivers/process/host.ts'
import { type ProcessDriverDependencies, processDriver } from '../src/instances/drivers/process/processDriver.ts'
import { sweeperFiles } from '../src/instances/drivers/process/sweeper.ts'
import { SILENCE } from './silence.ts'

/** Why tests of this driver are left out; null: they run. */
export const NO_MACHINES_HERE = whyNot()

function whyNot(): string | null {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) {
    return 'needs root on Linux, to start apps under other users'
  }
  const words = ['--net', '--mount', '--ipc', '--uts', '--pid', '--fork', '--mount-proc', '--', 'true']
  const { status } = spawnSync('unshare', words, { stdio: 'ignore' })
  return status === 0 ? null : 'needs a host that lets root make namespaces'
}

/** The name of a group of tests that start apps, with why they are left out where they are. */
export function onThisHost(what: string): string {
  return NO_MACHINES_HERE === null ? `${what} on this host` : `${what} on this host (left out: ${NO_MACHINES_HERE})`
}

/** Apart from those of an installation. */
const FIRST_UID = 1_500_000_000

/** Not beneath /tmp, which apps find empty. */
const HOLDER = '/var/lib/tollgate-test-'

const LISTENER = join(import.meta.dirname, 'apps/listener.mjs')

/**
 * Starts the app of the tests, which listens. Its program and file lie where each user of the host may read them: apps find /tmp
 * empty, and the checkout may lie there, or in somebody's home.
 */
export const LISTENER_COMMAND: readonly string[] = NO_MACHINES_HERE === null ? layOutListener() : []

function layOutListener(): string[] {
  const folder = mkdtempSync(HOLDER)
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  chmodSync(folder, 0o755)
  return [process.execPath, LISTENER].map((from) => {
    const to = join(folder, basename(from))
    // A link takes no room. The checkout may be on another file system.
    try {
      linkSync(from, to)
    } catch {
      copyFileSync(from, to)
    }
    return to
  })
}

export interface ProcessMachines {
  readonly driver: InstanceDriver
  readonly settings: ProcessDriverSettings
  /** Another process's driver of the same machines. */
  beside(more?: Partial<ProcessDriverDependencies>): InstanceDriver
  /** Creates a machine, waits until its app runs, and tells what the driver says of it. */
  start(name: string, spec: MachineSpec): Promise<DriverMachine>
  /** Waits until a machine is in a state. */
  until(name: string, state: DriverMachine['state'] | null): Promise<void>
  /** Waits until the files of deleted machines are removed. */
  swept(): Promise<void>
  close(): Promise<void>
}

export async function openProcessMachines(
  hidden: readonly string[] = [],
  more: Partial<ProcessDriverSettings> = {},
): Promise<ProcessMachines> {
  const holder = await mkdtemp(HOLDER)
  await chmod(holder, 0o711)
  const settings: ProcessDriverSettings = {
    kind: 'process',
    directory: join(holder, 'machines'),
    // So that files of tests that run beside each other share none.
    firstUid: FIRST_UID + (process.pid % 1_000_000) * 100,
    machinesMost: 20,
    memoryBytes: 2_000_000_000,
    cpus: 1,
    tasksMost: 200,
    ...more,
  }
  const host = await openHost(settings, { clock: systemClock, log: SILENCE, uid: 0, newPlace: () => 'test', hidden })
  const beside: ProcessMachines['beside'] = (changes = {}) =>
    processDriver({ settings, host, clock: systemClock, log: SILENCE, hidden, ...changes })
  const driver = beside()
  const never = new AbortController().signal
  const swept = async () => {
    const { folder } = sweeperFiles(settings.directory)
    while (existsSync(folder) && readdirSync(folder).length > 0) await driver.list(never)
  }
  const until: ProcessMachines['until'] = async (name, state) => {
    for (;;) {
      const found = (await driver.status(name, never))?.state ?? null
      if (found === state) return
      if (found === 'ended') throw new Error('the app of a machine has ended')
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  return {
    driver,
    swept,
    settings,
    beside,
    until,
    async start(name, spec) {
      await driver.create(name, spec, never)
      await until(name, 'running')
      return driver.status(name, never) as Promise<DriverMachine>
    },
    async close() {
      for (const { name } of await driver.list(never)) {
        while ((await driver.list(never)).some((each) => each.name === name)) await driver.delete(name, never)
      }
      await swept()
      await rm(holder, { recursive: true, force: true })
    },
  }
}

/**
 * Opens machines before the tests of a group, and closes them after the last one. Call it in the `describe` of the group. Its hooks run
 * in their place among those of the group: after the hooks above the call, before the hooks below it.
 */
export function useProcessMachines(
  open: () => Promise<ProcessMachines> = openProcessMachines,
): Omit<ProcessMachines, 'close'> {
  let machines: ProcessMachines
  beforeAll(async () => {
    machines = await open()
  })
  afterAll(() => machines.close())
  return {
    get driver() {
      return machines.driver
    },
    get settings() {
      return machines.settings
    },
    beside: (more) => machines.beside(more),
    start: (name, spec) => machines.start(name, spec),
    until: (name, state) => machines.until(name, state),
    swept: () => machines.swept(),
  }
}

let named = 0

/** Returns a name as instances have it. Control groups bear it, and all tests of the host that run now have theirs in one place. */
export function nextMachineName(): string {
  named += 1
  const number = `${String(process.pid).padStart(8, '0')}${String(named).padStart(4, '0')}`
  return `tollgate-00000000-0000-4000-8000-${number}`
}

/** An app of {@link LISTENER_COMMAND}. `words` are its arguments. */
export function listenerSpec(words: readonly string[] = [], more: Partial<MachineSpec> = {}): MachineSpec {
  return {
    ...{
      organizationId: '0190b3b4-0000-7000-8000-000000000001',
      app: 'listener',
      image: null,
      port: 8080,
      terminal: false,
      gpuType: 'cpu',
      gpuCount: 1,
      diskGb: 0,
      model: null,
    },
    command: [...LISTENER_COMMAND, ...words],
    ...more,
  }
}

/** Asks an app through the socket of its machine, as the gateway does. */
export async function askMachine({ appUrl }: DriverMachine, path: string): Promise<Response> {
  return fetch(`http://machine.test${path}`, { unix: (appUrl ?? '').slice('unix:'.length) })
}
