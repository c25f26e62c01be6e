/** The dependencies of one process of the domain of instances, on a base that a test chooses. */

import type { InstanceSettings } from '../src/catalog/offering.ts'
import type { Database } from '../src/infra/postgres/database.ts'
import { systemRandom } from '../src/infra/random.ts'
import { chooseInstance, type InstanceRequest } from '../src/instances/choose.ts'
import { createInstance, newCreation } from '../src/instances/create.ts'
import type { DriverMachine, InstanceDriver, MachineState } from '../src/instances/drivers/driver.ts'
import type { InstanceDependencies } from '../src/instances/job/dependencies.ts'
import { driverNameOf, type Instance } from '../src/instances/job/instance.ts'
import { deleteInstance } from '../src/instances/transitions.ts'
import type { Refusal } from '../src/lib/errors.ts'
import { uuidV7 } from '../src/lib/ids.ts'
import type { Clock } from '../src/lib/time.ts'
import { openTill } from './moneyHouse.ts'
import { SILENCE } from './silence.ts'

/** Odd, so that rounding shows. */
export const GPU_HOUR_MICROCENTS = 123_456_789n

export const INSTANCE_SETTINGS: InstanceSettings = {
  driver: { kind: 'command', path: '/nonexistent', timeoutMs: 1_000 },
  access: null,
  coverSeconds: 600,
  createTimeoutMs: 900_000,
  liveMost: 3,
  gpuTypes: [
    { name: 'a100', vramGb: 80, count: 4, gpuHourMicrocents: GPU_HOUR_MICROCENTS, diskGbMax: 100, diskGbTotal: 250 },
    { name: 'free', vramGb: 1, count: 1, gpuHourMicrocents: 0n, diskGbMax: 0, diskGbTotal: null },
  ],
  apps: [
    {
      name: 'server',
      image: 'server:1',
      command: null,
      port: 8080,
      terminal: false,
      vramGbMin: 40,
      models: [
        { name: 'small', vramGb: 20 },
        { name: 'huge', vramGb: 500 },
      ],
    },
    { name: 'tool', image: 'tool:1', command: null, port: 80, terminal: true, vramGbMin: 0, models: [] },
  ],
}

/** A driver whose machines a test makes, moves and loses. */
export interface ScriptedMachines extends InstanceDriver {
  readonly machines: Map<string, DriverMachine>
  /** How often each name was made. */
  readonly made: Map<string, number>
  /** The state of a machine that has just been made. */
  next: MachineState
  /** Called before each question; what it throws is the answer. */
  before: (question: 'create' | 'status' | 'delete' | 'list', name: string) => Promise<void> | void
  set(instance: Pick<Instance, 'id'>, state: MachineState | null): void
}

export function scriptMachines(): ScriptedMachines {
  const machines = new Map<string, DriverMachine>()
  const made = new Map<string, number>()
  const machineOf = (name: string, state: MachineState): DriverMachine => ({
    ...{ name, state, terminalUrl: null },
    appUrl: state === 'running' ? `http://machine.test/${name}` : null,
  })
  const driver: ScriptedMachines = {
    kind: 'scripted',
    machines,
    made,
    next: 'running',
    before: () => {},
    set({ id }, state) {
      const name = driverNameOf(id)
      if (state === null) machines.delete(name)
      else machines.set(name, machineOf(name, state))
    },
    async create(name) {
      await driver.before('create', name)
      const there = machines.get(name)
      if (there !== undefined) return there
      made.set(name, (made.get(name) ?? 0) + 1)
      const machine = machineOf(name, driver.next)
      machines.set(name, machine)
      return machine
    },
    async status(name) {
      await driver.before('status', name)
      return machines.get(name) ?? null
    },
    async delete(name) {
      await driver.before('delete', name)
      machines.delete(name)
    },
    async list() {
      await driver.before('list', '')
      return [...machines.values()]
    },
  }
  return driver
}

export const PRINCIPAL = '00000000-0000-4000-8000-000000000001'

export interface InstanceGround {
  readonly database: Database
  readonly clock: Clock
  readonly driver: InstanceDriver
  readonly slot: number
}

/** Events go into the table `test_events`. */
export function instanceProcess(
  { database, clock, driver, slot }: InstanceGround,
  more: Partial<InstanceDependencies> = {},
): InstanceDependencies {
  return {
    ...{ database, clock, driver, lowBalanceMicrocents: 0n, random: systemRandom(), log: SILENCE },
    settings: INSTANCE_SETTINGS,
    money: openTill(database, slot, clock),
    onNoticed: () => {},
    publish: async (tx, event) => {
      await tx.query('insert into test_events (id, type, data) values ($1::uuid, $2, $3::text::jsonb)', [
        event.id,
        event.type,
        JSON.stringify(event.data),
      ])
    },
    ...more,
  }
}

/** Asks for an instance as a customer does. */
export async function askForInstance(
  means: InstanceDependencies,
  organizationId: string,
  changes: Partial<InstanceRequest> = {},
): Promise<{ readonly refusal: Refusal | null; readonly id: string }> {
  const chosen = chooseInstance(means.settings, {
    ...{ app: 'server', gpuType: 'a100', gpuCount: 1, diskGb: 10, model: null, name: null },
    expectedPricePerHourCents: Math.round((Number(GPU_HOUR_MICROCENTS) * (changes.gpuCount ?? 1)) / 1_000_000),
    ...changes,
  })
  if (!chosen.ok) return { refusal: chosen.refusal, id: '' }
  const creation = newCreation(means, { organizationId, principalId: PRINCIPAL }, chosen.value)
  return { refusal: await createInstance(means, creation, []), id: creation.instance.id }
}

/** Deletes an instance as its customer does. */
export function askForDeletion(
  means: InstanceDependencies,
  { id, organizationId }: Pick<Instance, 'id' | 'organizationId'>,
) {
  const createdAtMs = means.clock.now()
  const operation = {
    ...{ organizationId, principalId: PRINCIPAL, createdAtMs, resourceId: id },
    id: uuidV7(createdAtMs, systemRandom()),
    kind: 'instance.delete',
  } as const
  return deleteInstance(means, { id, organizationId }, operation, async () => [])
}
