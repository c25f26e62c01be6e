/** Preflight of a video and the creation of one, in turns, on one organization as its money comes and goes. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from '../../../test/acceptance/ask.ts'
import { chat, directed, film, SETTINGS } from '../../../test/acceptance/catalog.ts'
import { subscribe, useUpPlan } from '../../../test/acceptance/plans.ts'
import { expectRefusal } from '../../../test/acceptance/refusals.ts'
import type { TestKey } from '../../../test/customer.ts'
import { type ScriptedVideos, scriptVideos } from '../../../test/scriptedVideos.ts'

const SOON = `
  - id: svc/film-soon
    modality: video
    status: coming_soon
    pricing: { per_video_second_cents: 1 }
plans:`

let gateway: AskedGateway
let provider: ScriptedVideos
beforeAll(async () => {
  provider = scriptVideos()
  gateway = await openAskedGateway({ settings: SETTINGS.replace('\nplans:', SOON), videos: provider })
})
afterAll(() => gateway.close())

const PREFLIGHT = '/inference/preflight'
const ask = (key: TestKey, model = 'svc/film') => gateway.ask({ path: `${PREFLIGHT}?model=${model}`, key })
const create = (key: TestKey, more: Readonly<Record<string, unknown>> = {}) =>
  gateway.ask({ path: '/videos', key, body: film(more) })

const GOOD = {
  model: 'svc/film',
  verdict: 'ok',
  message: 'This call is paid for from your credit.',
  plan_covered: false,
  subscribed: false,
  funded: true,
}
const BLOCKED = {
  ...GOOD,
  verdict: 'block',
  message: expect.stringContaining('No credit is left'),
  funded: false,
  reason: 'insufficient_balance',
}
const INSUFFICIENT = { status: 402, code: 'insufficient_balance' }

async function until(key: TestKey, id: string, status: string): Promise<void> {
  const deadlineMs = Date.now() + 30_000
  while (Date.now() < deadlineMs) {
    const { json } = await gateway.ask({ path: `/videos/${id}`, key })
    if ((json as { status: string }).status === status) return
    await new Promise((resolve) => setImmediate(resolve))
  }
  throw new Error(`never ${status}`)
}

test('money that running jobs hold is not there for another; it is again when one of them is cancelled, and gone when it is done', async () => {
  provider.looking = () => ({ kind: 'working', progress: 1 })
  // For one of the model's own length.
  const key = await gateway.customer({ cents: 4 })
  expect((await ask(key)).json).toEqual(GOOD)
  const first = (await create(key)).json as { id: string }
  expect((await ask(key)).json).toEqual(BLOCKED)
  expectRefusal(await create(key), 'B', INSUFFICIENT)
  expectRefusal(await create(key, { seconds: 1 }), 'B', INSUFFICIENT)
  // Held money can't be spent: a chat is refused as well, and told so.
  expect((await ask(key, 'svc/demo')).json).toMatchObject({ verdict: 'block', reason: 'insufficient_balance' })
  expectRefusal(await gateway.ask({ path: '/chat/completions', key, body: chat() }), 'B', INSUFFICIENT)
  await gateway.ask({ method: 'POST', path: `/videos/${first.id}/cancel`, key })
  expect((await ask(key)).json).toEqual(GOOD)
  const second = (await create(key)).json as { id: string }
  provider.looking = (job) => job.state
  await until(key, second.id, 'completed')
  expect((await ask(key)).json).toEqual(BLOCKED)
  expectRefusal(await create(key), 'B', INSUFFICIENT)
})

test('a limit that is reached blocks a chat and no video: it is funded by its credit alone', async () => {
  const key = await gateway.customer({ admin: true })
  for (const enforcement of ['block_launch', 'stop_running', 'notify_only']) {
    for (const [daily, gate] of [
      [0.01, 'daily'],
      [0, 'monthly'],
    ] as const) {
      const body = { monthly_limit_dollars: 1, daily_limit_dollars: daily, enforcement }
      await gateway.ask({ method: 'PUT', path: '/billing/spending-limit', key, body })
      await gateway.database.query(
        `update accounts set day = $2::date, month = date_trunc('month', $2::date)::date,
           day_spent_microcents = 100000000, month_spent_microcents = 100000000 where organization_id = $1::uuid`,
        [key.organizationId, new Date().toISOString().slice(0, 10)],
      )
      const reason = `${gate}_limit_reached`
      const isRefused = enforcement !== 'notify_only'
      const ofChat = { verdict: isRefused ? 'block' : 'warn', reason, funded: !isRefused }
      expect((await ask(key, 'svc/demo')).json).toMatchObject(ofChat)
      expect((await ask(key)).json).toEqual(GOOD)
      expect((await create(key)).status).toBe(202)
    }
  }
})

test('no plan is for videos: a subscriber is told so, whatever is left of the plan, and pays', async () => {
  const warned = {
    ...GOOD,
    verdict: 'warn',
    message: expect.stringContaining('not cover this model'),
    subscribed: true,
    reason: 'not_plan_covered',
  }
  const subscriber = await gateway.customer()
  await subscribe(gateway.database, subscriber, 'large')
  const usedUp = await gateway.customer()
  await useUpPlan(gateway.database, usedUp)
  for (const key of [subscriber, usedUp]) {
    expect((await ask(key)).json).toEqual(warned)
    expect((await create(key)).status).toBe(202)
  }
  const poor = await gateway.customer({ cents: 0 })
  await subscribe(gateway.database, poor, 'large')
  expect((await ask(poor)).json).toEqual({ ...BLOCKED, subscribed: true })
  expectRefusal(await create(poor), 'B', INSUFFICIENT)
})

test('neither the cap of new accounts nor the shape of a request is looked at', async () => {
  const key = await gateway.customer({ standing: 'new', cents: 10_000 })
  // A token costs a cent: $19, and the next call would pass the $20 of an hour.
  const dear = directed('prompt_tokens=1 tokens=1900', { model: 'svc/dear', max_tokens: 1_900 })
  expect((await gateway.ask({ path: '/chat/completions', key, body: dear })).status).toBe(200)
  const capped = { status: 402, code: 'quota_exceeded', says: /new accounts/ }
  expectRefusal(await gateway.ask({ path: '/chat/completions', key, body: dear }), 'B', capped)
  expect((await ask(key)).json).toEqual(GOOD)
  expect((await create(key, { seconds: 10 })).status).toBe(202)
  for (const body of [{ seconds: 11 }, { size: '64x64' }, { tools: [] }]) {
    expect((await create(key, body)).status).toBe(400)
  }
})

test('a balance that can not be read never blocks here, and is never served there', async () => {
  const key = await gateway.customer({ cents: 0 })
  await gateway.database.query('alter table accounts rename to gone')
  expect((await ask(key)).json).toMatchObject({ verdict: 'ok', reason: 'preflight_unavailable', plan_covered: false })
  expectRefusal(await create(key), 'B', { status: 503, code: 'upstream_unavailable', retryAfter: 1 })
  await gateway.database.query('alter table gone rename to accounts')
  expect((await ask(key)).json).toEqual(BLOCKED)
})

describe('a model that can not be called is refused by both alike', () => {
  test.each(['svc/none', 'svc/film:economy', 'svc/film-soon'])('%s', async (model) => {
    const key = await gateway.customer({ cents: 0 })
    const none = { status: 404, code: 'model_not_found', param: 'model' }
    expectRefusal(await ask(key, model), 'B', none)
    expectRefusal(await create(key, { model }), 'B', none)
  })

  test('and so is a key without the scope; one that may only read may ask', async () => {
    const stranger = await gateway.customer({ scopes: 'webhooks:write' })
    const refused = { status: 403, code: 'insufficient_scope' }
    expectRefusal(await ask(stranger), 'B', refused)
    expectRefusal(await create(stranger), 'B', refused)
    const reader = await gateway.customer({ scopes: 'serverless:read' })
    expect((await ask(reader)).json).toEqual(GOOD)
    expectRefusal(await create(reader), 'B', refused)
  })
})

test('asking holds nothing and makes no job', async () => {
  const key = await gateway.customer({ cents: 0 })
  const rows = async () => {
    const [counts] = await gateway.database.query<Record<string, bigint>>(
      `select (select count(*) from accounts where organization_id = $1::uuid) as accounts,
         (select count(*) from videos where organization_id = $1::uuid) as videos,
         (select count(*) from holds where organization_id = $1::uuid) as holds,
         (select count(*) from charges where organization_id = $1::uuid) as charges`,
      [key.organizationId],
    )
    return counts
  }
  expect((await ask(key)).json).toEqual(BLOCKED)
  expect(await rows()).toEqual({ accounts: 1n, videos: 0n, holds: 0n, charges: 0n })
  const rich = await gateway.customer({ cents: 100 })
  for (let count = 0; count < 3; count += 1) await ask(rich)
  expect((await gateway.ask({ path: '/videos', key: rich })).json).toMatchObject({ data: [] })
  expect((await gateway.ask({ path: '/billing/balance', key: rich })).json).toMatchObject({ balance_cents: 100 })
})
