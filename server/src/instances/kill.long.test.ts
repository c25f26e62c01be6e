/** SIGKILL at every step of create, bill and delete; then another process goes on: nothing is lost, made twice or charged twice. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { TurnedClock } from '../../test/clock.ts'
import { MACHINES_TABLE, tabledMachines } from '../../test/faults/tabledMachines.ts'
import { type InstanceHouse, openInstanceHouse } from '../../test/instanceHouse.ts'
import { GPU_HOUR_MICROCENTS } from '../../test/instanceProcess.ts'
import { priceInstanceLife } from '../billing/charges/pricing.ts'
import { SECOND_MS } from '../lib/time.ts'
import type { InstanceDependencies, InstanceStep } from './job/dependencies.ts'
import { driverNameOf, type Instance } from './job/instance.ts'

const WORKER = join(import.meta.dirname, '../../test/faults/instanceWorker.ts')
const CENT = 1_000_000n

const clock = new TurnedClock(Date.UTC(2031, 4, 17, 13, 30, 7, 300))
let house: InstanceHouse
let other: InstanceDependencies
beforeAll(async () => {
  house = await openInstanceHouse(clock)
  await house.database.query(MACHINES_TABLE)
  other = house.process({ driver: tabledMachines(house.database) })
})
afterAll(() => house.drop())

type Task = 'create' | 'work' | 'delete'

async function dieAt(step: InstanceStep, task: Task, organizationId: string, id = ''): Promise<void> {
  const child = Bun.spawn([process.execPath, WORKER, house.url, `${clock.now()}`, step, task, organizationId, id], {
    stdout: 'inherit',
    stderr: 'inherit',
  })
  await child.exited
  expect(child.signalCode).toBe('SIGKILL')
}

/** Lets time pass: the work of the process that died is another's after half a minute. */
async function live(seconds: number): Promise<void> {
  for (let left = seconds; left > 0; left -= 10) {
    await clock.turn(10 * SECOND_MS)
    await house.work(other)
  }
}

async function instanceOf(organizationId: string): Promise<Instance | null> {
  const rows = await house.database.query<{ id: string }>('select id from instances where organization_id = $1::uuid', [
    organizationId,
  ])
  return rows[0] === undefined ? null : house.find({ id: rows[0].id, organizationId })
}

/** The step at which the process dies, its task, and in how many seconds the instance ends after its creation. */
const rows: [InstanceStep, Task, number | null][] = [
  ['accepting', 'create', null],
  ['accepted', 'create', 240],
  ['taken', 'work', 240],
  ['started', 'work', 240],
  ['made', 'work', 240],
  ['running', 'work', 240],
  ['charging', 'work', 240],
  ['charged', 'work', 240],
  ['terminating', 'delete', 240],
  ['terminated', 'delete', 120],
  ['removed', 'work', 120],
  ['finished', 'work', 120],
]

test.each(rows)(
  'killed at "%s" of %s',
  async (step, task, seconds) => {
    const organization = await house.organization(1_000n * CENT)
    if (task === 'create') await dieAt(step, task, organization)
    else await house.create(organization)
    const instance = await instanceOf(organization)
    if (seconds === null) {
      expect(instance).toBeNull()
      expect(await house.disagreements()).toEqual([])
      return
    }
    if (instance === null) throw new Error('the instance was lost')
    await dieIn(step, task, instance)
    const leftSeconds = seconds - (clock.now() - instance.createdAtMs) / SECOND_MS
    await live(leftSeconds)
    if (seconds === 240) await house.delete(instance, other)
    await live(120)
    const cost = priceInstanceLife(GPU_HOUR_MICROCENTS, seconds)
    expect(await house.charged(instance)).toMatchObject({ seconds, microcents: cost })
    expect(await house.spent(organization)).toMatchObject({ microcents: cost })
    expect((await house.find(instance)).state).toBe('terminated')
    expect(await house.events(instance)).toEqual([
      'instance.creating creating',
      'instance.running running',
      'instance.terminated terminated',
    ])
    expect(
      await house.database.query('select made, is_there from test_machines where name = $1', [
        driverNameOf(instance.id),
      ]),
    ).toEqual([{ made: 1, is_there: false }])
    for (const { state } of await house.operations(instance)) expect(state).toBe('succeeded')
    expect(await house.disagreements()).toEqual([])
  },
  60_000,
)

/** Brings an instance to where the step is next, and has a process die there. */
async function dieIn(step: InstanceStep, task: Task, instance: Instance): Promise<void> {
  if (task === 'create') return
  if (step === 'charging' || step === 'charged') {
    await house.work(other)
    await clock.turn(60 * SECOND_MS)
  } else if (task === 'delete' || step === 'removed' || step === 'finished') {
    await live(120)
    if (task === 'work') await house.delete(instance, other)
  }
  await dieAt(step, task, instance.organizationId, instance.id)
}
