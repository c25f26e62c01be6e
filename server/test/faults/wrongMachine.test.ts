/**
 * A real gateway, with its database, on a machine whose wall clock is set wrong and right again: calls, dates and commands stay as
 * they are (E20).
 */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { CLOCK_JUMPS_MS } from '../clocksApart.ts'
import { preload } from '../preload.ts'
import { CHAT, SETTINGS } from '../sandboxChat.ts'
import { startServer, type TestServer } from '../server.ts'
import { until } from '../until.ts'

let clockSetter: Awaited<ReturnType<typeof preload>>
const wrongDate = (jumpsMs: readonly number[]) => ({
  ...clockSetter.environment,
  TEST_CLOCK_JUMPS_MS: jumpsMs.join(','),
})
let server: TestServer
let startedMs: number
beforeAll(async () => {
  clockSetter = await preload(join(import.meta.dirname, '../wrongDate.ts'))
  startedMs = Date.now()
  server = await startServer({
    settings: `log_level: debug${SETTINGS}`,
    environment: wrongDate(CLOCK_JUMPS_MS),
  })
}, 60_000)
afterAll(async () => {
  await server.remove()
  await clockSetter.remove()
})

function send(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(`${server.url}${path}`, {
    method,
    headers: { Authorization: `Bearer ${server.firstKey}`, 'Content-Type': 'application/json', ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
}

const chat = async (headers?: Record<string, string>) => {
  const answer = await send('POST', '/chat/completions', CHAT, headers)
  return { status: answer.status, cost: answer.headers.get('Svc-Cost-Microcents'), text: await answer.text() }
}

/** Turns the machine's clock on to the next jump or back, and waits until the log is dated by it. */
async function turnTo(jumpMs: number): Promise<void> {
  server.process.kill('SIGUSR2')
  await until(async () => {
    await send('GET', '/models')
    const line = server.errors().trimEnd().split('\n').at(-1) ?? '{}'
    const aheadMs = Date.parse(JSON.parse(line).time) - Date.now()
    return Math.abs(aheadMs - jumpMs) < 2_500
  })
}

test('no call is refused, no kept answer forgotten and nothing dated by the wrong clock', async () => {
  const limit = { daily_limit_dollars: 10, monthly_limit_dollars: 20, enforcement: 'block_launch' }
  expect((await send('PUT', '/billing/spending-limit', limit)).status).toBe(200)
  const kept = await chat({ 'Idempotency-Key': 'kept' })
  expect(kept.status).toBe(200)
  let calls = 1
  for (const jumpMs of CLOCK_JUMPS_MS) {
    for (const toMs of [jumpMs, 0]) {
      await turnTo(toMs)
      const [free, again] = [await chat(), await chat({ 'Idempotency-Key': 'kept' })]
      calls += 1
      expect({ toMs, status: free.status, cost: free.cost }).toEqual({ toMs, status: 200, cost: kept.cost })
      expect({ toMs, text: again.text, cost: again.cost }).toEqual({ toMs, text: kept.text, cost: '0' })
      const ready = await fetch(`${server.adminUrl}/ready`)
      expect({ toMs, status: ready.status, text: await ready.text() }).toMatchObject({ toMs, status: 200 })
    }
  }
  const charges = (await server.command('charges', 'list', '--org', 'default')) as unknown as { admitted_at: string }[]
  expect(charges).toHaveLength(calls)
  for (const { admitted_at } of charges) {
    expect(Date.parse(admitted_at)).toBeGreaterThanOrEqual(startedMs)
    expect(Date.parse(admitted_at)).toBeLessThanOrEqual(Date.now() + 1_000)
  }
}, 60_000)

test('rows that a command writes on such a machine are dated by the database', async () => {
  for (const jumpMs of CLOCK_JUMPS_MS) {
    const words = ['credits', 'grant', '--org', 'default', '--usd', '1', '--data-dir', server.dataDir]
    const child = Bun.spawn([join(import.meta.dirname, '../../../tollgate'), ...words], {
      env: { ...process.env, DATABASE_URL: '', ...wrongDate([jumpMs]) },
      stdout: 'ignore',
    })
    expect(await child.exited).toBe(0)
  }
  const entries = (await server.command('credits', 'list', '--org', 'default')) as unknown as { posted_at: string }[]
  expect(entries.length).toBeGreaterThanOrEqual(CLOCK_JUMPS_MS.length)
  for (const { posted_at } of entries) {
    expect(Date.parse(posted_at)).toBeGreaterThanOrEqual(startedMs)
    expect(Date.parse(posted_at)).toBeLessThanOrEqual(Date.now() + 1_000)
  }
}, 60_000)
