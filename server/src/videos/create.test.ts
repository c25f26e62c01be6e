import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { openVideoHouse, type VideoHouse } from '../../test/videoHouse.ts'
import type { Video } from './job/video.ts'

const clock = new TurnedClock(Date.UTC(2031, 4, 17, 13, 30))

let house: VideoHouse
beforeAll(async () => {
  house = await openVideoHouse(clock)
}, 60_000)
afterAll(() => house.close())

test('an accepted job is answered as it stands in the database', async () => {
  const organization = await house.organization(1_000_000_000n)
  const answered = await house.create(organization, 3)
  const plain = (video: Video) => ({ ...video, priceHash: [...video.priceHash] })
  expect(plain(answered)).toEqual(plain(await house.find(answered)))
})
