/** The metrics page of video jobs, webhooks and requests with an Idempotency-Key. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { type Gateway, openGateway, type TestKey } from '../gateway.ts'
import { metricsPage } from '../metricsPage.ts'
import { type ScriptedVideos, scriptVideos } from '../scriptedVideos.ts'
import { until } from '../until.ts'
import { startReceiver } from '../webhookReceiver.ts'

setDefaultTimeout(60_000)

const SETTINGS = `
webhooks: { allow: [127.0.0.0/8] }
providers:
  sandbox: { dialect: sandbox }
models:
  - id: svc/film
    modality: video
    pricing: { per_video_second_microcents: 7300000 }
    video: { concurrency: 2 }
    parameters: [{ name: seconds, type: int, min: 2, max: 20, default: 4 }]
    targets: [{ provider: sandbox, model: film }]
`

let gateway: Gateway
let provider: ScriptedVideos
let key: TestKey

beforeAll(async () => {
  provider = scriptVideos()
  gateway = await openGateway({ settings: SETTINGS, videos: provider })
  key = await gateway.customer({ cents: 100_000 })
})
afterAll(() => gateway.close())

async function scrape(): Promise<(name: string) => number | undefined> {
  const page = await metricsPage(gateway.app)
  const samples = page.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  const all = new Map(
    samples.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
  )
  return (name) => all.get(`tollgate_${name}`)
}

/** Asks until it is so. */
const untilMetric = (isSo: (metric: (name: string) => number | undefined) => boolean) =>
  until(async () => isSo(await scrape()))

async function create(seconds = 4, of = key, headers: Record<string, string> = {}): Promise<string> {
  const response = await gateway.post(of, '/videos', { model: 'svc/film', prompt: 'a canary', seconds }, headers)
  return (await response.json()).id
}

const cancel = (id: string) => gateway.post(key, `/videos/${id}/cancel`, {})
const ended = (outcome: string) => `video_duration_seconds_count{model="svc/film",outcome="${outcome}"}`

test('a video is counted from its acceptance to its charge, with the money of all other calls', async () => {
  const before = await scrape()
  expect(before('webhook_attempts_total{outcome="internal"}')).toBe(0)
  expect(before('webhook_deliveries_total{outcome="dead"}')).toBe(0)
  await create(8)
  await untilMetric((metric) => metric(ended('completed')) === 1)
  const metric = await scrape()
  // An alarm on an increase sees the first failure.
  expect(metric(ended('upstream_error'))).toBe(0)
  expect(metric('videos_created_total{model="svc/film"}')).toBe(1)
  expect(metric('video_seconds_total{model="svc/film"}')).toBe(8)
  expect(metric('charged_microcents_total{model="svc/film",outcome="completed"}')).toBe(59_000_000)
  expect(metric('video_claim_seconds_count{claim="start"}')).toBeGreaterThan(0)
  expect(metric('video_claim_seconds_count{claim="due"}')).toBeGreaterThan(0)
  // Sent, looked at, fetched.
  expect(metric('provider_attempt_duration_seconds_count{provider="sandbox",outcome="answered"}')).toBe(3)
  expect(metric('videos_queued{model="svc/film"}')).toBe(0)
  expect(metric('oldest_queued_video_seconds{model="svc/film"}')).toBe(0)
})

test('jobs that wait and that are under way are seen, and how each of them ends', async () => {
  provider.looking = () => ({ kind: 'working', progress: 1 })
  const ids = [await create(), await create(), await create(), await create()]
  await untilMetric((metric) => metric('videos_under_way{model="svc/film"}') === 2)
  await gateway.database.query(
    `update videos set created_at = created_at - interval '1 hour' where status = 'queued' and id = $1::uuid`,
    [ids[2] ?? ''],
  )
  const metric = await scrape()
  expect(metric('videos_queued{model="svc/film"}')).toBe(2)
  expect(metric('oldest_queued_video_seconds{model="svc/film"}')).toBeGreaterThanOrEqual(3_600)
  await gateway.database.query(`update videos set due_at = 'epoch' where id = $1::uuid`, [ids[2] ?? ''])
  await untilMetric((now) => now(ended('expired')) === 1)
  for (const id of [ids[0], ids[3]]) await cancel(id ?? '')
  provider.looking = () => ({ kind: 'failed', code: 'content_policy', detail: 'no' })
  await untilMetric((now) => now(ended('content_policy')) === 1)
  const last = await scrape()
  expect(last(ended('cancelled'))).toBe(2)
  expect(last(ended('completed'))).toBe(1)
  expect(last('videos_under_way{model="svc/film"}')).toBe(0)
})

test('a video that nobody can pay for is counted like other calls', async () => {
  const poor = await gateway.customer({ cents: 1 })
  expect(await create(4, poor)).toBeUndefined()
  const metric = await scrape()
  expect(metric('money_refusals_total{code="insufficient_balance"}')).toBe(1)
  expect(metric('money_wait_seconds_count')).toBeGreaterThan(0)
  expect(metric('videos_created_total{model="svc/film"}')).toBe(5)
})

test('deliveries are counted by what came of them', async () => {
  const good = await startReceiver()
  const bad = await startReceiver((response) => response.writeHead(500).end())
  for (const { url } of [good, bad]) {
    const body = { url, event_types: ['video.completed'] }
    expect((await gateway.post(key, '/webhook-endpoints', body, { 'Idempotency-Key': url })).status).toBe(201)
  }
  provider.looking = (job) => job.state
  await create()
  await untilMetric((now) => {
    return (
      now('webhook_deliveries_total{outcome="delivered"}') === 1 &&
      now('webhook_deliveries_total{outcome="failed"}') === 1
    )
  })
  const metric = await scrape()
  expect(metric('webhook_delivery_seconds_count')).toBe(1)
  for (const lane of ['new', 'fast', 'slow']) {
    expect(metric(`webhook_deliveries_waiting{lane="${lane}"}`)).toBe(0)
    expect(metric(`oldest_waiting_webhook_seconds{lane="${lane}"}`)).toBe(0)
  }
  expect(metric('slow_webhook_endpoints')).toBe(0)
  // Its fifth attempt is due.
  await gateway.database.query(`update webhook_deliveries set attempts = 4, due_at = 'epoch' where state = 'pending'`)
  await gateway.database.query(`update webhook_turns set due_at = 'epoch' where due_at is not null`)
  await untilMetric((now) => now('webhook_deliveries_total{outcome="dead"}') === 1)
  expect((await scrape())('webhook_delivery_seconds_count')).toBe(1)
  good.stop()
  bad.stop()
})

test('a request that is sent again with its key is counted as a replay, and its job as one', async () => {
  const before = await scrape()
  const of = (metric: typeof before, outcome: string) => metric(`idempotent_requests_total{outcome="${outcome}"}`) ?? 0
  const made = await create(4, key, { 'Idempotency-Key': 'once' })
  expect(await create(4, key, { 'Idempotency-Key': 'once' })).toBe(made)
  expect(await create(5, key, { 'Idempotency-Key': 'once' })).toBeUndefined()
  const after = await scrape()
  for (const outcome of ['begun', 'replay', 'mismatch']) expect(of(after, outcome) - of(before, outcome)).toBe(1)
  const jobs = 'videos_created_total{model="svc/film"}'
  expect((after(jobs) ?? 0) - (before(jobs) ?? 0)).toBe(1)
})

test('nothing that a client wrote is on the page', async () => {
  const page = await metricsPage(gateway.app)
  expect(page).not.toContain('canary')
  expect(page).not.toContain('127.0.0.1')
})
