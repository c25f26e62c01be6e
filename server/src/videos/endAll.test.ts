/** Videos that others are just moving while all of their organization are cancelled: none is left over. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { until } from '../../test/until.ts'
import { openVideoHouse, type VideoHouse } from '../../test/videoHouse.ts'
import { cancelVideosOf } from './endAll.ts'

const clock = new TurnedClock(Date.UTC(2031, 4, 17, 13, 30))
let house: VideoHouse
beforeAll(async () => {
  house = await openVideoHouse(clock)
})
afterAll(() => house.close())

/** As the moves of the table write them, and a new lease of whoever is at the job. */
const MOVES = [
  ['queued', 'submitting'],
  ['submitting', 'in_progress'],
  ['submitting', 'queued'],
  ['queued', 'queued'],
  ['in_progress', 'in_progress'],
] as const

// The planner takes the one way for few videos and the other for many.
test.each(MOVES.flatMap((move) => ['on', 'off'].map((scans) => [...move, scans] as const)))(
  'of videos that go from %s to %s while their locks are waited for, all are cancelled (sequential scans: %s)',
  async (from, to, scans) => {
    const organization = await house.organization(1_000_000_000n)
    for (let count = 0; count < 3; count += 1) await house.create(organization)
    const write = 'update videos set status = $2, attempt = attempt + 1 where organization_id = $1::uuid'
    await house.database.query(write, [organization, from])
    const { promise: isCommitting, resolve: commit } = Promise.withResolvers<void>()
    const { promise: isWritten, resolve: written } = Promise.withResolvers<void>()
    const moving = house.database.transaction(async (tx) => {
      await tx.query(write, [organization, to])
      written()
      await isCommitting
    })
    await isWritten
    const cancelling = house.database.transaction(async (tx) => {
      await tx.query(`set local enable_seqscan = ${scans}`)
      return cancelVideosOf(tx, organization, clock.now())
    })
    const waiting = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    await until(async () => (await house.database.query(waiting)).length > 0)
    commit()
    await moving
    expect(await cancelling).toBe(3)
    const left = 'select status from videos where organization_id = $1::uuid and status <> $2'
    expect(await house.database.query(left, [organization, 'cancelled'])).toEqual([])
  },
)
