/** Apps outlive a service manager that ends all of the gateway's control group. With groups of the kernel's own (cgroup v2). Needs root. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, rmdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { MachineErrand } from '../../../../test/faults/machineWorker.ts'
import {
  askMachine,
  listenerSpec,
  NO_MACHINES_HERE,
  nextMachineName,
  onThisHost,
  useProcessMachines,
} from '../../../../test/processMachines.ts'
import { until } from '../../../../test/until.ts'
import { filesOf, type KeptSpec } from './spec.ts'

const WORKER = join(import.meta.dirname, '../../../../test/faults/machineWorker.ts')
const NAME = nextMachineName()
const never = new AbortController().signal

/** The folder of a control group as systemd makes one for a service; null: there is no cgroup v2 here, or it can't be written. */
const SERVICE = NO_MACHINES_HERE === null ? placeOfService() : null

function placeOfService(): string | null {
  const mounts = readFileSync('/proc/self/mounts', 'utf8').split('\n')
  const [, root] = mounts.map((line) => line.split(' ')).find(([, , type]) => type === 'cgroup2') ?? []
  if (root === undefined) return null
  const folder = join(root, `tollgate-test-service-${process.pid}`)
  try {
    mkdirSync(folder)
    rmdirSync(folder)
  } catch {
    return null
  }
  return folder
}

async function processesIn(group: string): Promise<number[]> {
  const pids = (await readFile(join(group, 'cgroup.procs'), 'utf8')).split('\n')
  return pids.filter((pid) => pid !== '').map(Number)
}

describe.skipIf(SERVICE === null)(onThisHost('an app of a service'), () => {
  const service = SERVICE ?? ''
  beforeAll(() => mkdirSync(service))
  const machines = useProcessMachines()
  afterAll(() => rmdirSync(service))

  test('runs on when all that is left in the control group of the service is killed, and ends with its deletion', async () => {
    const errand: MachineErrand = { settings: machines.settings, name: NAME, spec: listenerSpec(), step: 'launched' }
    const enter = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
    const words = ['-c', enter, service, process.execPath, WORKER, JSON.stringify(errand)]
    await once(spawn('sh', words, { stdio: 'ignore' }), 'exit')
    await machines.until(NAME, 'running')
    for (const pid of await processesIn(service)) process.kill(pid, 'SIGKILL')
    await until(async () => (await processesIn(service)).length === 0)
    const machine = await machines.driver.status(NAME, never)
    expect(machine).toMatchObject({ state: 'running' })
    if (machine !== null) expect(await (await askMachine(machine, '/')).text()).toBe('')
    const { groups } = JSON.parse(await readFile(filesOf(machines.settings.directory, NAME).spec, 'utf8')) as KeptSpec
    expect(groups.length).toBeGreaterThan(0)
    while ((await machines.driver.list(never)).length > 0) await machines.driver.delete(NAME, never)
    for (const group of groups) expect(existsSync(group)).toBe(false)
  })
})
