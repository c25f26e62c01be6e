/** The verification finds videos whose books were tampered with; each row is one lie, told and taken back. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { openVideoHouse, type VideoHouse } from '../../../test/videoHouse.ts'
import { startNext } from '../../videos/queue/start.ts'
import { accept, complete } from '../../videos/transitions.ts'

const CENT = 1_000_000n
const clock = new TurnedClock(Date.UTC(2031, 4, 17, 13, 30))
let house: VideoHouse
beforeAll(async () => {
  house = await openVideoHouse(clock)
  const organization = await house.organization(1_000n * CENT)
  const means = house.process()
  await house.create(organization, 3)
  for (const { video } of await startNext(means, 'svc/film', 1, new AbortController().signal)) {
    const running = await accept(means, video, 'job', clock.now())
    if (running !== null) await complete(means, running, { bytes: 9, measuredSeconds: 3 })
  }
  await house.create(organization, 5)
})
afterAll(() => house.close())

test('true books are not objected to', async () => {
  expect(await house.disagreements()).toEqual([])
})

test.each([
  ['more is held than the holds say', 'update accounts set held_microcents = held_microcents + $1::bigint', ['held']],
  ['a charge of more seconds', 'update charges set video_seconds = video_seconds + $1::bigint', ['cost', 'rollup']],
  ['an hour of more seconds', 'update usage_hours set video_seconds = video_seconds + $1::bigint', ['rollup']],
  ['a hold of more', 'update holds set amount_microcents = amount_microcents + $1::bigint', ['held']],
])('%s', async (_, lie, kinds) => {
  await house.database.query(lie, [1n])
  const found = await house.disagreements()
  await house.database.query(lie, [-1n])
  const told = found.flatMap((each) => (typeof each === 'object' && each !== null && 'kind' in each ? [each.kind] : []))
  expect(told).toEqual(kinds)
  expect(await house.disagreements()).toEqual([])
})
