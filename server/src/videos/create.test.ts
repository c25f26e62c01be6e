import { afterAll, beforeAll, expect, test } from 'bun:test'
import { admitCall } from '../../test/admitCall.ts'
import { TurnedClock } from '../../test/clock.ts'
import { openVideoHouse, type VideoHouse } from '../../test/videoHouse.ts'
import { Refused, refusal } from '../lib/errors.ts'
import { createVideo, newVideo } from './create.ts'
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

test('a job whose turn at the database is refused is told so, and not that its money could not be read', async () => {
  const organizationId = await house.organization(1_000_000_000n)
  const full = refusal('rate_limit_exceeded', 'Too many wait.', { retryAfterSeconds: 1 })
  const transaction = () => Promise.reject(new Refused(full))
  const process = house.process({ database: { ...house.database, transaction } })
  const caller = { organizationId, keyId: crypto.randomUUID(), traceparent: null }
  const job = newVideo(process, caller, house.resolved, { prompt: 'x', seconds: 3, size: null })
  const refused = await createVideo(process, caller, job).catch((error: unknown) => error)
  expect(refused).toMatchObject({ refusal: full })
})

test('where no place is left to wait for money, a job whose money calls hold may try again, and one without money must pay', async () => {
  const [busy, poor] = [await house.organization(1_000_000_000n), await house.organization(0n)]
  const process = house.process()
  const call = {
    keyId: crypto.randomUUID(),
    model: 'svc/test',
    tier: 'serverless',
    priceHash: new Uint8Array(32),
  } as const
  const worst = { wholeMicrocents: 1_000_000_000n, firstStepMicrocents: 1_000_000_000n }
  const admitted = await admitCall(process.money, { ...call, organizationId: busy }, worst)
  if (!admitted.ok) throw new Error(admitted.refusal.message)
  process.money.waitingCalls = 1_000
  const create = async (organizationId: string) => {
    const caller = { organizationId, keyId: call.keyId, traceparent: null }
    return createVideo(
      process,
      caller,
      newVideo(process, caller, house.resolved, { prompt: 'x', seconds: 3, size: null }),
    )
  }
  expect(await create(busy)).toMatchObject({
    ok: false,
    refusal: { code: 'upstream_unavailable', retryAfterSeconds: 1 },
  })
  expect(await create(poor)).toMatchObject({ ok: false, refusal: { code: 'insufficient_balance' } })
  process.money.waitingCalls = 0
  admitted.value.hold.release()
})
