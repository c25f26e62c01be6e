/** The domain of instances over a real database, as many processes of it as a test wants, with a scripted driver. */

import { priceInstanceLife } from '../src/billing/charges/pricing.ts'
import { verifyAll } from '../src/billing/ledger/verifyAll.ts'
import { planCheck } from '../src/billing/plans/verify.ts'
import type { InstanceSettings } from '../src/catalog/offering.ts'
import type { InstanceRequest } from '../src/instances/choose.ts'
import type { InstanceDependencies } from '../src/instances/job/dependencies.ts'
import { type Instance, NO_SUCH_INSTANCE } from '../src/instances/job/instance.ts'
import { createInstanceRunner } from '../src/instances/run.ts'
import { findInstance } from '../src/instances/store.ts'
import type { Refusal } from '../src/lib/errors.ts'
import type { Clock } from '../src/lib/time.ts'
import type { Operation } from '../src/operations/operation.ts'
import { findOperation } from '../src/operations/store.ts'
import {
  askForDeletion,
  askForInstance,
  INSTANCE_SETTINGS,
  instanceProcess,
  type ScriptedMachines,
  scriptMachines,
} from './instanceProcess.ts'
import { type House, openHouse } from './moneyHouse.ts'

export interface InstanceHouse extends House {
  readonly driver: ScriptedMachines
  /** Returns the dependencies of one process. */
  process(more?: Partial<InstanceDependencies>): InstanceDependencies
  /** An instance that must be accepted. */
  create(organizationId: string, request?: Partial<InstanceRequest>): Promise<Instance>
  /** Why an instance is refused; null: it is accepted. */
  refusal(organizationId: string, request?: Partial<InstanceRequest>): Promise<Refusal | null>
  /** Does all that is due now, driver and bills. */
  work(means?: InstanceDependencies): Promise<void>
  delete(instance: Pick<Instance, 'id' | 'organizationId'>, means?: InstanceDependencies): Promise<Operation | null>
  find(instance: Pick<Instance, 'id' | 'organizationId'>): Promise<Instance>
  operations(instance: Pick<Instance, 'id' | 'organizationId'>): Promise<Operation[]>
  /** The types of its events and the states that they tell. */
  events(instance: Pick<Instance, 'id'>): Promise<string[]>
  /** Returns the sum of an instance's charges, their number, and the seconds that they are for. */
  charged(instance: Pick<Instance, 'id'>): Promise<{ microcents: bigint; seconds: number; charges: number }>
  /** All that does not agree: ledger, charges, holds, burn and sums of usage, computed anew from the rows. */
  disagreements(): Promise<unknown[]>
}

export async function openInstanceHouse(
  clock: Clock,
  settings: Partial<InstanceSettings> = {},
): Promise<InstanceHouse> {
  const house = await openHouse(clock)
  const { database } = house
  await database.query(`create table test_events (number bigserial, id uuid primary key, type text, data jsonb)`)
  const driver = scriptMachines()
  let slots = 0
  const processOf: InstanceHouse['process'] = (more = {}) => {
    slots += 1
    const own = { settings: { ...INSTANCE_SETTINGS, ...settings }, ...more }
    return instanceProcess({ database, clock, driver, slot: slots }, own)
  }
  const front = processOf()
  const find: InstanceHouse['find'] = async ({ id, organizationId }) => {
    const found = await findInstance(database, organizationId, id)
    if (found === null) throw new Error(NO_SUCH_INSTANCE.message)
    return found
  }
  return {
    ...house,
    driver,
    process: processOf,
    async create(organizationId, changes = {}) {
      const { refusal, id } = await askForInstance(front, organizationId, changes)
      if (refusal !== null) throw new Error(refusal.message)
      return find({ id, organizationId })
    },
    refusal: async (organizationId, changes = {}) => (await askForInstance(front, organizationId, changes)).refusal,
    work: (means = front) => createInstanceRunner(means).run(),
    delete: (instance, means = front) => askForDeletion(means, instance),
    find,
    async operations({ id, organizationId }) {
      const rows = await database.query<{ id: string }>(
        'select id from operations where resource_id = $1::uuid order by id',
        [id],
      )
      const found = await Promise.all(rows.map((row) => findOperation(database, organizationId, null, row.id)))
      return found.filter((each): each is Operation => each !== null)
    },
    async events({ id }) {
      const rows = await database.query<{ type: string; state: string }>(
        `select type, data -> 'instance' ->> 'state' as state from test_events where data -> 'instance' ->> 'id' = $1 order by number`,
        [id],
      )
      return rows.map(({ type, state }) => `${type} ${state}`)
    },
    async charged({ id }) {
      const rows = await database.query<{ microcents: bigint; seconds: bigint; charges: bigint }>(
        `select coalesce(sum(cost_microcents), 0)::bigint as microcents, coalesce(sum(instance_seconds), 0)::bigint as seconds,
           count(*) as charges from charges where instance_id = $1::uuid`,
        [id],
      )
      const { microcents = 0n, seconds = 0n, charges = 0n } = rows[0] ?? {}
      return { microcents, seconds: Number(seconds), charges: Number(charges) }
    },
    async disagreements() {
      const found: unknown[] = [...(await house.imbalances())]
      for await (const each of verifyAll({ database, pause: async () => {}, checks: [planCheck] })) found.push(each)
      return [...found, ...(await recompute(house))]
    },
  }
}

interface RecomputedRow {
  readonly id: string
  readonly hour: bigint
  readonly state: string
  readonly gpus: number
  readonly settled: bigint
  readonly held_second: bigint
  readonly held: bigint
  readonly charged: bigint
  readonly seconds: bigint
  readonly usage_cost: bigint
  readonly usage_seconds: bigint
}

/** Compares each instance, and each account, with what its rows come to. */
async function recompute({ database }: House): Promise<unknown[]> {
  const rows = await database.query<RecomputedRow>(
    `select i.id, hour_microcents as hour, state, gpu_count as gpus, settled_second as settled, held_second,
       coalesce((select amount_microcents from holds h where h.id = i.id), 0)::bigint as held,
       (select coalesce(sum(cost_microcents), 0) from charges c where c.instance_id = i.id)::bigint as charged,
       (select coalesce(sum(instance_seconds), 0) from charges c where c.instance_id = i.id)::bigint as seconds,
       (select coalesce(sum(cost_microcents), 0) from instance_hours u where u.instance_id = i.id)::bigint as usage_cost,
       (select coalesce(sum(gpu_seconds), 0) from instance_hours u where u.instance_id = i.id)::bigint as usage_seconds
     from instances i`,
  )
  const found: unknown[] = []
  for (const row of rows) {
    const isLive = row.state === 'creating' || row.state === 'running'
    const life = (second: bigint) => priceInstanceLife(row.hour, Number(second))
    const held = isLive ? life(row.held_second) - life(row.settled) : 0n
    if (held !== row.held) found.push({ id: row.id, held, row: row.held })
    if (row.usage_cost !== row.charged || row.usage_seconds !== row.seconds * BigInt(row.gpus))
      found.push({ usage: row })
  }
  const accounts = await database.query(
    `select organization_id from accounts a where
       burn_microcents <> (select coalesce(sum(hour_microcents), 0) from instances i
         where i.organization_id = a.organization_id and state in ('creating', 'running'))
       or instances_held_microcents <> (select coalesce(sum(amount_microcents), 0) from holds h
         join instances i on i.id = h.id where i.organization_id = a.organization_id)`,
  )
  return [...found, ...accounts]
}
