/** Money held by a row, beside calls that hold theirs in memory: neither is given what the other has. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { admitCall } from '../../../../test/admitCall.ts'
import { FastClock, type Till } from '../../../../test/moneyHouse.ts'
import { openVideoHouse, type VideoHouse } from '../../../../test/videoHouse.ts'
import { Refused } from '../../../lib/errors.ts'
import { createVideo, newVideo } from '../../../videos/create.ts'
import { cancel } from '../../../videos/transitions.ts'
import { readFigures } from '../accounts/figures.ts'
import type { Admitted } from '../admit.ts'

const CENT = 1_000_000n
const KEY = '00000000-0000-4000-8000-000000000001'
/** Two seconds of waiting are a tenth of that. */
const clock = new FastClock(Date.UTC(2031, 4, 17, 13, 30), 10)
let house: VideoHouse
beforeAll(async () => {
  house = await openVideoHouse(clock)
})
afterAll(() => house.close())

async function call(till: Till, organizationId: string, microcents: bigint): Promise<Admitted | string> {
  const admitted = await admitCall(
    till,
    { organizationId, keyId: KEY, model: 'svc/test', tier: 'serverless', priceHash: new Uint8Array(32) },
    { wholeMicrocents: microcents, firstStepMicrocents: microcents },
  )
  return admitted.ok ? admitted.value : admitted.refusal.code
}

function film(till: ReturnType<VideoHouse['process']>, organizationId: string, seconds: number) {
  const caller = { organizationId, keyId: KEY, traceparent: null }
  return createVideo(till, caller, newVideo(till, caller, house.resolved, { prompt: 'x', seconds, size: null }))
}

describe('a balance of 100 cents', () => {
  test('is not given to calls where videos hold it, and is again when they end', async () => {
    const organization = await house.organization(100n * CENT)
    const { money } = house.process()
    const video = await house.create(organization, 10)
    const figures = await readFigures(house.database, organization, clock.now())
    expect(figures).toMatchObject({ balanceMicrocents: 100n * CENT, heldMicrocents: 73n * CENT })
    expect(await call(money, organization, 28n * CENT)).toBe('insufficient_balance')
    const small = await call(money, organization, 27n * CENT)
    expect(small).toBeObject()
    expect(await call(money, organization, 1n)).toBe('insufficient_balance')
    await cancel(house.process(), video.id, organization)
    expect(await call(money, organization, 73n * CENT)).toBeObject()
    expect(await house.disagreements()).toEqual([])
  })

  test('money that processes have idle is called back for a video', async () => {
    const organization = await house.organization(100n * CENT)
    const asking = house.process()
    const idle = house.process()
    for (const { money } of [asking, idle]) {
      const taken = await call(money, organization, CENT)
      if (typeof taken === 'string') throw new Error(taken)
      taken.hold.release()
    }
    const before = await readFigures(house.database, organization, clock.now())
    expect(before?.sharesMicrocents).toBeGreaterThan(30n * CENT)
    // As the listener of each process does.
    const heard = setInterval(() => idle.money.hearReclaim(organization), 1)
    const made = await film(asking, organization, 13)
    clearInterval(heard)
    expect(made.ok).toBe(true)
    expect(await house.disagreements()).toEqual([])
  })

  test('the hold of a call is not given to a video, however long it waits; when the call ends it is', async () => {
    const organization = await house.organization(100n * CENT)
    const process = house.process()
    const open = await call(process.money, organization, 60n * CENT)
    if (typeof open === 'string') throw new Error(open)
    expect(await film(process, organization, 10)).toMatchObject({ ok: false })
    const waiting = film(process, organization, 10)
    open.hold.release()
    expect(await waiting).toMatchObject({ ok: true })
    expect(await house.disagreements()).toEqual([])
  })

  test('is given to as many of many at once as it is enough for', async () => {
    const organization = await house.organization(100n * CENT)
    const processes = [house.process(), house.process(), house.process()]
    const tries = processes.flatMap((process) => [1, 2, 3].map(() => film(process, organization, 3)))
    const made = (await Promise.all(tries)).filter(({ ok }) => ok)
    // 22 cents each.
    expect(made.length).toBe(4)
    expect(await house.disagreements()).toEqual([])
  })
})

test('whose Idempotency-Key was taken over leaves no job and no hold', async () => {
  const organization = await house.organization(100n * CENT)
  const caller = { organizationId: organization, keyId: KEY, traceparent: null }
  const process = house.process()
  const job = newVideo(process, caller, house.resolved, { prompt: 'x', seconds: 3, size: null })
  const made = createVideo(process, caller, job, [async () => false])
  await expect(made).rejects.toBeInstanceOf(Refused)
  const rows = await house.database.query('select id from videos where organization_id = $1::uuid', [organization])
  expect(rows).toEqual([])
  const figures = await readFigures(house.database, organization, clock.now())
  expect(figures?.heldMicrocents).toBe(0n)
})

test('an organization that never had an account is refused, not failed', async () => {
  const organization = await house.organization(0n)
  await house.database.query('delete from accounts where organization_id = $1::uuid', [organization])
  expect(await film(house.process(), organization, 3)).toMatchObject({ ok: false })
})
