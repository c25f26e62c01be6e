/** A process that makes a machine by the driver `process`, and kills itself at a step of it. Its argument is JSON. */

import { readFile } from 'node:fs/promises'
import type { ProcessDriverSettings } from '../../src/catalog/offering.ts'
import { systemClock } from '../../src/infra/clock.ts'
import type { MachineSpec } from '../../src/instances/drivers/driver.ts'
import { openControlGroups } from '../../src/instances/drivers/process/controlGroups.ts'
import { findPrograms } from '../../src/instances/drivers/process/host.ts'
import { processDriver } from '../../src/instances/drivers/process/processDriver.ts'
import { SILENCE } from '../silence.ts'

export interface MachineErrand {
  readonly settings: ProcessDriverSettings
  readonly name: string
  readonly spec: MachineSpec
  readonly step: 'written' | 'launched'
}

const { settings, name, spec, step } = JSON.parse(process.argv[2] ?? '') as MachineErrand
const groups = await openControlGroups(await readFile('/proc/self/mounts', 'utf8'))
const driver = processDriver({
  ...{
    settings,
    clock: systemClock,
    log: SILENCE,
    hidden: [],
    host: { programs: findPrograms(), groups, place: 'test', filesMost: 1_024, tcpBytes: 20_000_000 },
  },
  reached: (at) => {
    if (at === step) process.kill(process.pid, 'SIGKILL')
  },
})
await driver.create(name, spec, new AbortController().signal)
