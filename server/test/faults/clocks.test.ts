/** Clocks that are set wrong: of a gateway's machine, which decide nothing, and of the database, which are followed after a minute (E20). */

import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { readFigures } from '../../src/billing/admission/accounts/figures.ts'
import { MINUTE_MS, SECOND_MS, utcDay } from '../../src/lib/time.ts'
import { type AskedGateway, openAskedGateway } from '../acceptance/ask.ts'
import { CLOCK_JUMPS_MS, type ClocksApart, openClocksApart } from '../clocksApart.ts'
import type { TestKey } from '../customer.ts'
import { metric } from '../metricsPage.ts'
import { CHAT } from '../sandboxChat.ts'
import { type ScriptedVideos, scriptVideos } from '../scriptedVideos.ts'
import { until } from '../until.ts'

/** Four seconds before the end of the hour in which calls are dear. */
const START_MS = Date.UTC(2030, 0, 15, 12, 59, 56)
const SETTINGS = `
providers:
  sandbox: { dialect: sandbox, first_token_ms: 0, tokens_per_second: unlimited }
models:
  - id: svc/chat
    context_length: 4096
    max_output_tokens: 64
    pricing:
      peak: { input_per_1m_tokens_cents: 100000, output_per_1m_tokens_cents: 100000 }
      off_peak: { input_per_1m_tokens_cents: 1000, output_per_1m_tokens_cents: 1000 }
      peak_windows_utc: [{ start: "12:00", end: "13:00" }]
    targets: [{ provider: sandbox, model: sandbox }]
  - id: svc/words
    modality: embedding
    context_length: 512
    pricing: { input_per_1m_tokens_cents: 100 }
    targets: [{ provider: sandbox, model: sandbox }]
  - id: svc/picture
    modality: image
    pricing: { per_image_cents: 1 }
    parameters: [{ name: size, type: enum, enum: ["64x64"], default: "64x64" }]
    targets: [{ provider: sandbox, model: sandbox }]
  - id: svc/film
    modality: video
    pricing: { per_video_second_cents: 1 }
    parameters: [{ name: seconds, type: int, min: 1, max: 10, default: 4 }]
    targets: [{ provider: sandbox, model: film }]
`
const FILM = { model: 'svc/film', prompt: 'a cat' }

let clocks: ClocksApart
let provider: ScriptedVideos
let gateway: AskedGateway
/** Has a limit for each day and month. */
let limited: TestKey
let free: TestKey

beforeEach(async () => {
  clocks = await openClocksApart(START_MS)
  provider = scriptVideos()
  gateway = await openAskedGateway({
    settings: SETTINGS,
    clock: clocks.clock,
    databaseClock: clocks.database,
    clockTrouble: clocks.trouble,
    videos: provider,
  })
  limited = await gateway.customer({ cents: 10_000, admin: true })
  free = await gateway.customer({ cents: 10_000 })
  const limit = { daily_limit_dollars: 5, monthly_limit_dollars: 50, enforcement: 'block_launch' }
  await ok({ method: 'PUT', path: '/billing/spending-limit', key: limited, body: limit })
})
afterEach(async () => {
  await gateway.close()
  clocks.close()
})

async function ok(question: Parameters<AskedGateway['ask']>[0]) {
  const answer = await gateway.ask(question)
  if (answer.status >= 300) throw new Error(`${question.path}: ${answer.status} ${answer.text}`)
  return answer
}

const chat = (key: TestKey, idempotencyKey?: string) =>
  gateway.ask({
    path: '/chat/completions',
    key,
    body: CHAT,
    ...(idempotencyKey === undefined ? {} : { headers: { 'Idempotency-Key': idempotencyKey } }),
  })

const charges = (key: TestKey) =>
  gateway.database.query<{ day: string; cost: bigint }>(
    `select to_char(admitted_at, 'YYYY-MM-DD') as day, cost_microcents as cost from charges
     where organization_id = $1::uuid order by admitted_at, id`,
    [key.organizationId],
  )

/** The row of an account, its spend that is not folded yet, and what `usage_days` has for its day and month, at one instant. */
async function account(key: TestKey) {
  const [row] = await gateway.database.query<{
    day: string
    spent: bigint
    of_day: bigint
    month_spent: bigint
    of_month: bigint
    not_folded: bigint
  }>(
    `select to_char(day, 'YYYY-MM-DD') as day, day_spent_microcents as spent, month_spent_microcents as month_spent,
       (select coalesce(sum(cost_microcents), 0)::bigint from usage_days u
        where u.organization_id = a.organization_id and u.day = a.day::timestamptz) as of_day,
       (select coalesce(sum(cost_microcents), 0)::bigint from usage_days u
        where u.organization_id = a.organization_id and date_trunc('month', u.day) = a.month::timestamptz) as of_month,
       (select coalesce(sum(spent_microcents), 0)::bigint from unfolded_spend s where s.organization_id = a.organization_id
        and s.minute >= a.day::timestamptz and s.minute < a.day::timestamptz + interval '1 day') as not_folded
     from accounts a where organization_id = $1::uuid`,
    [key.organizationId],
  )
  if (row === undefined) throw new Error('no account')
  return row
}

async function readiness() {
  const answer = await gateway.app.handleAdmin(new Request('http://localhost/ready'))
  return { status: answer.status, reasons: ((await answer.json()) as { reasons: string[] }).reasons }
}

/** Asks after a video until it has come to one of these states; time goes on a little meanwhile. */
async function statusOnce(id: unknown, isSo: (status: unknown) => boolean): Promise<unknown> {
  let status: unknown
  await until(async () => {
    await clocks.pass(10)
    status = ((await ok({ path: `/videos/${id}`, key: free })).json as Record<string, unknown>)['status']
    return isSo(status)
  })
  return status
}

describe('the wall clock of a gateway’s machine', () => {
  test.each(CLOCK_JUMPS_MS)('that is set %d ms ahead for three seconds changes nothing', async (jumpMs) => {
    // Before: a call that is charged at the price of the hour, a kept answer, and a video that waits.
    const first = await chat(limited)
    const kept = await chat(free, 'kept')
    expect([first.status, kept.status]).toEqual([200, 200])
    provider.taking = () => 'busy'
    const { id } = (await ok({ path: '/videos', key: free, body: FILM })).json as { id: string }
    while (provider.asked === 0) await clocks.pass(0)

    clocks.turnWall(jumpMs)
    const during = [await chat(limited), await chat(free)]
    const again = await chat(free, 'kept')
    await clocks.pass(3 * SECOND_MS)
    during.push(await chat(limited))
    clocks.turnWall(0)
    const after = [await chat(limited), await chat(free), await chat(free, 'kept')]

    expect([...during, ...after].map(({ status, text }) => (status === 200 ? 200 : text))).toEqual(Array(6).fill(200))
    // The same price; and nothing for a kept answer.
    const costs = [first, ...during, ...after].map(({ headers }) => headers.get('Svc-Cost-Microcents'))
    const cost = first.headers.get('Svc-Cost-Microcents')
    expect(costs).toEqual([cost, cost, cost, cost, cost, cost, '0'])
    expect([again.text, again.headers.get('Svc-Cost-Microcents')]).toEqual([kept.text, '0'])
    const made = [...(await charges(limited)), ...(await charges(free))]
    expect(made).toEqual(Array(7).fill({ day: '2030-01-15', cost: BigInt(cost ?? 0) }))
    expect(await account(limited)).toMatchObject({ day: '2030-01-15' })
    // The video has not expired: it is made as soon as somebody takes it.
    provider.taking = () => 'taken'
    expect(await statusOnce(id, (status) => status !== 'queued' && status !== 'in_progress')).toBe('completed')
    expect(await readiness()).toEqual({ status: 200, reasons: [] })
    expect(clocks.logs).toEqual([])
  })
})

/** Everything that is paid for, with how it is asked. */
const PAID = [
  { path: '/chat/completions', body: CHAT },
  { path: '/chat/completions', body: { ...CHAT, stream: true } },
  { path: '/embeddings', body: { model: 'svc/words', input: 'Hello.' } },
  { path: '/images/generations', body: { model: 'svc/picture', prompt: 'a cat' } },
  { path: '/videos', body: FILM },
]

async function refusals() {
  const answers = await Promise.all(PAID.map((question) => gateway.ask({ ...question, key: free })))
  return answers.map(({ status, headers }) => [status, headers.get('Retry-After')])
}

describe('the database’s clock', () => {
  test.each(CLOCK_JUMPS_MS)(
    'that jumps by %d ms keeps calls out for a minute; afterwards nobody is refused',
    async (jumpMs) => {
      const kept = await chat(free, 'kept')
      await chat(limited)
      const [before] = await charges(limited)

      clocks.turnDatabase(jumpMs)
      await clocks.pass(5 * SECOND_MS)
      for (const waitedMs of [0, 30 * SECOND_MS, 29 * SECOND_MS]) {
        await clocks.pass(waitedMs)
        expect(await refusals()).toEqual(PAID.map(() => [503, '1']))
      }
      const { status, reasons } = await readiness()
      expect([status, reasons]).toEqual([503, [expect.stringContaining('what this process counted')]])
      expect(await metric(gateway.app, 'ready')).toBe(0)
      const preflight = await ok({ path: '/inference/preflight?model=svc/chat', key: free })
      expect(preflight.json).toMatchObject({ verdict: 'ok', reason: 'preflight_unavailable' })
      // An answer that was paid for already is still to be had.
      expect((await chat(free, 'kept')).text).toBe(kept.text)
      expect([await charges(limited), await charges(free)].map(({ length }) => length)).toEqual([1, 1])

      await clocks.pass(2 * SECOND_MS)
      expect(await refusals()).toEqual(PAID.map(() => [expect.any(Number), null]))
      expect((await chat(limited)).status).toBe(200)
      const day = utcDay(clocks.database.now())
      expect((await charges(limited)).map((charge) => charge.day).sort()).toEqual([before?.day ?? '', day].sort())
      await checkAccounts(day)

      clocks.turnDatabase(0)
      await clocks.pass(5 * SECOND_MS)
      expect(await refusals()).toEqual(PAID.map(() => [503, '1']))
      await clocks.pass(MINUTE_MS)
      expect([(await chat(limited)).status, (await chat(free)).status]).toEqual([200, 200])
      await checkAccounts('2030-01-15')
      expect(await readiness()).toEqual({ status: 200, reasons: [] })
      expect(clocks.logs.map((line) => line.includes('no call is admitted'))).toEqual([true, false, true, false])
      // These accounts' day had gone ahead, or was ahead of a clock that went back.
      const mended = await metric(gateway.app, 'account_days_mended_total')
      expect(mended > 0).toBe(utcDay(START_MS + jumpMs) !== '2030-01-15')
      const lines = gateway.logs.filter((line) => line.includes('day lay in the future'))
      expect(lines).toHaveLength(mended)
    },
  )

  test('that jumps for three seconds is never followed, and no account is charged on another day', async () => {
    for (const jumpMs of CLOCK_JUMPS_MS) {
      clocks.turnDatabase(jumpMs)
      await clocks.pass(3 * SECOND_MS)
      clocks.turnDatabase(0)
      await clocks.pass(5 * SECOND_MS)
      expect([(await chat(limited)).status, (await chat(free)).status]).toEqual([200, 200])
    }
    const days = [...(await charges(limited)), ...(await charges(free))].map(({ day }) => day)
    expect(days).toEqual(Array(10).fill('2030-01-15'))
    await checkAccounts('2030-01-15')
  })
})

/** The figures of accounts with a limit are those of the day, to the micro-cent. */
async function checkAccounts(day: string): Promise<void> {
  const row = await account(limited)
  const { of_day: ofDay, of_month: ofMonth, not_folded: notFolded } = row
  expect([row.day, row.spent + notFolded, row.month_spent + notFolded]).toEqual([day, ofDay, ofMonth])
  const figures = await readFigures(gateway.database, limited.organizationId, clocks.clock.now())
  expect([figures?.daySpentMicrocents, figures?.monthSpentMicrocents]).toEqual([ofDay, ofMonth])
}

test('an account whose day is a false one, as the version before left it, is mended by the next call', async () => {
  // Half of the daily limit is spent, and then a process 40 days ahead took the account with it.
  for (let calls = 0; calls < 4; calls += 1) expect((await chat(limited)).status).toBe(200)
  await checkAccounts('2030-01-15')
  const spent = (await account(limited)).of_day
  await gateway.database.query(
    `update accounts set day = '2030-02-24', day_spent_microcents = 7, month = '2030-02-01', month_spent_microcents = 7
     where organization_id = $1::uuid`,
    [limited.organizationId],
  )
  const other = await besides()
  try {
    // Another process, which has nothing of the account in memory.
    const answer = await other.post(limited, '/chat/completions', CHAT)
    expect(answer.status).toBe(200)
    await checkAccounts('2030-01-15')
    expect((await account(limited)).of_day).toBe(spent + spent / 4n)
  } finally {
    await other.close()
  }
})

function besides() {
  const { databaseUrl, dataDirectory } = gateway
  return openAskedGateway({
    settings: SETTINGS,
    clock: clocks.clock,
    databaseClock: clocks.database,
    beside: { databaseUrl, dataDirectory },
  })
}
