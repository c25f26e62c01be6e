/** The jobs of an organization that wait are bounded, whatever they cost. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { openVideoHouse, type VideoHouse } from '../../test/videoHouse.ts'
import { readFigures } from '../billing/admission/accounts/figures.ts'
import { Refused } from '../lib/errors.ts'
import { createVideo, newVideo } from './create.ts'
import type { VideoDependencies } from './job/dependencies.ts'
import { cancel } from './transitions.ts'

const CENT = 1_000_000n
const KEY = '00000000-0000-4000-8000-000000000001'
const clock = new TurnedClock(Date.UTC(2031, 4, 17, 13, 30))

let house: VideoHouse
/** Two processes; three jobs of an organization may wait. */
let processes: VideoDependencies[]
beforeAll(async () => {
  house = await openVideoHouse(clock)
  processes = [house.process({ queuedMost: 3 }), house.process({ queuedMost: 3 })]
}, 60_000)
afterAll(() => house.close())

/** Returns the id of the job that was made, or the code of the refusal. */
async function create(organizationId: string, by = processes[0], seconds = 2): Promise<string> {
  if (by === undefined) throw new Error('there is no such process')
  const caller = { organizationId, keyId: KEY, traceparent: null }
  const job = newVideo(by, caller, house.resolved, { prompt: 'x', seconds, size: null })
  const made = await createVideo(by, caller, job).catch((error: unknown) => {
    if (error instanceof Refused) return { ok: false, refusal: error.refusal } as const
    throw error
  })
  return made.ok ? made.value.id : made.refusal.code
}

test('of many at once in several processes as many are accepted as may wait, and nothing is held for the others', async () => {
  const organization = await house.organization(1_000n * CENT)
  const made = await Promise.all(Array.from({ length: 10 }, (_, index) => create(organization, processes[index % 2])))
  const refused = made.filter((each) => each === 'rate_limit_exceeded')
  expect(refused).toHaveLength(7)
  const figures = await readFigures(house.database, organization, clock.now())
  const rows = await house.database.query('select 1 from holds where organization_id = $1::uuid', [organization])
  expect(rows).toHaveLength(3)
  // 7.3 cents a second, to the whole cent above, of each.
  expect(figures?.heldMicrocents).toBe(3n * 15n * CENT)
  expect(await house.disagreements()).toEqual([])
})

test('a place is free again when a job has ended, and full queues of others are none', async () => {
  const [organization, other] = [await house.organization(1_000n * CENT), await house.organization(1_000n * CENT)]
  const first = await create(organization)
  for (let time = 0; time < 2; time += 1) await create(organization)
  expect(await create(organization)).toBe('rate_limit_exceeded')
  expect(await create(other)).toMatch(/^[0-9a-f-]{36}$/)
  if (processes[1] !== undefined) await cancel(processes[1], first, organization)
  expect(await create(organization)).toMatch(/^[0-9a-f-]{36}$/)
})

test('a full queue is refused before the balance is asked', async () => {
  const organization = await house.organization(50n * CENT)
  for (let time = 0; time < 3; time += 1) await create(organization)
  expect(await create(organization, processes[0], 10)).toBe('rate_limit_exceeded')
})
