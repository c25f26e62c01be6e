/** Every move of instances and operations from every state: the table says which are allowed, the statement refuses the rest. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { type InstanceHouse, openInstanceHouse } from '../../test/instanceHouse.ts'
import { PRINCIPAL } from '../../test/instanceProcess.ts'
import { systemRandom } from '../infra/random.ts'
import { uuidV7 } from '../lib/ids.ts'
import { OPERATION_MOVES, OPERATION_STATES, type OperationMoveName } from '../operations/operation.ts'
import { insertOperation, moveOperations } from '../operations/store.ts'
import { INSTANCE_MOVES, INSTANCE_STATES, type InstanceMoveName } from './job/instance.ts'
import { moveInstance } from './store.ts'

const clock = new TurnedClock(Date.UTC(2031, 4, 17, 13, 30))
let house: InstanceHouse
let organization: string
beforeAll(async () => {
  house = await openInstanceHouse(clock, { liveMost: 1_000 })
  organization = await house.organization(10n ** 14n)
})
afterAll(() => house.drop())

const moves = Object.keys(INSTANCE_MOVES) as InstanceMoveName[]
const nowMs = clock.now()

describe('an instance', () => {
  test.each(INSTANCE_STATES.flatMap((state) => moves.map((move) => [state, move] as const)))(
    'that is %s: %s',
    async (state, move) => {
      const instance = await house.create(organization, {
        gpuType: 'free',
        app: 'tool',
        diskGb: 0,
        expectedPricePerHourCents: 0,
      })
      const isLive = state === 'creating' || state === 'running'
      await house.database.query(
        `update instances set state = $2, ended_at = case when $3::boolean then null else created_at end,
           bill_due_at = case when $3::boolean then bill_due_at end where id = $1::uuid`,
        [instance.id, state, isLive],
      )
      const { from, to, isFenced } = INSTANCE_MOVES[move]
      const written = { dueAtMs: null, ...(to === 'running' ? {} : { endedAtMs: nowMs }) }
      const stale = await house.database.transaction((tx) =>
        moveInstance(tx, move, { ...instance, attempt: 7 }, written),
      )
      expect(stale?.state ?? null).toBe(!isFenced && (from as readonly string[]).includes(state) ? to : null)
      if (!isFenced) return
      const moved = await house.database.transaction((tx) => moveInstance(tx, move, instance, written))
      const isAllowed = (from as readonly string[]).includes(state)
      expect(moved?.state ?? null).toBe(isAllowed ? to : null)
      expect((await house.find(instance)).state).toBe(isAllowed ? to : state)
    },
  )
})

describe('an operation', () => {
  const names = Object.keys(OPERATION_MOVES) as OperationMoveName[]
  test.each(OPERATION_STATES.flatMap((state) => names.map((move) => [state, move] as const)))(
    'that is %s: %s',
    async (state, move) => {
      const { database } = house
      const id = uuidV7(nowMs, systemRandom())
      const resourceId = uuidV7(nowMs, systemRandom())
      const operation = { id, organizationId: organization, principalId: PRINCIPAL, resourceId, createdAtMs: nowMs }
      await database.transaction((tx) => insertOperation(tx, { ...operation, kind: 'instance.create' }))
      await database.query(
        `update operations set state = $2, error_detail = case when $2 = 'failed' then 'x' end,
           completed_at = case when $2 in ('succeeded', 'failed', 'cancelled') then created_at end where id = $1::uuid`,
        [id, state],
      )
      const { from, to } = OPERATION_MOVES[move]
      const errorDetail = to === 'failed' ? { errorDetail: 'It did not work.' } : {}
      const of = { resourceId, kind: 'instance.create' } as const
      const moved = await moveOperations(database, move, of, { atMs: nowMs, ...errorDetail })
      expect(moved).toBe((from as readonly string[]).includes(state) ? 1 : 0)
      const rows = await database.query<{ state: string }>('select state from operations where id = $1::uuid', [id])
      expect(rows).toEqual([{ state: moved === 1 ? to : state }])
    },
  )
})
