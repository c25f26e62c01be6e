import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TurnedClock } from '../../test/clock.ts'
import { runCommand } from '../../test/commandContext.ts'
import { type House, openHouse } from '../../test/moneyHouse.ts'
import { loadConfig } from '../config/config.ts'
import { DAY_MS, HOUR_MS, toTimestamp } from '../lib/time.ts'

const NOW_MS = Date.UTC(2030, 0, 1)
const clock = new TurnedClock(NOW_MS)
const PLANS = `plans:
  - { key: starter, name: Starter, input_tokens_monthly: 100, output_tokens_monthly: 50, weekly_tokens: 90 }
  - { key: team, name: Team, input_tokens_monthly: 1, output_tokens_monthly: 1, weekly_tokens: 1, max_usage_cents: 500 }
`

let house: House
let folder: string
beforeAll(async () => {
  house = await openHouse(clock)
  await house.organization(0n)
  await house.organization(0n)
  folder = await mkdtemp(join(tmpdir(), 'subscriptions-'))
  await writeFile(join(folder, 'tollgate.yaml'), PLANS)
  await writeFile(join(folder, 'bare.yaml'), 'owned_by: acme\n')
}, 60_000)
afterAll(async () => {
  await house.drop()
  await rm(folder, { recursive: true })
})

const tollgate = (...argv: string[]) =>
  runCommand(
    ['subscriptions', ...argv],
    { database: house.database, clock },
    {
      stdoutIsTerminal: true,
      loadConfig: (flags) => loadConfig(flags, {}, folder),
    },
  )

const ORG = ['--org', 'organization 1']
const GOOD = ['set', ...ORG, '--plan', 'starter', '--status', 'active', '--until', '30d']

test('a subscription is set, changed within its period, and set anew after it', async () => {
  expect((await tollgate('show', ...ORG)).stdout).toBe('"organization 1" was never subscribed.\n')
  const first = {
    org: 'organization 1',
    plan: 'starter',
    status: 'active',
    period_start: '2030-01-01T00:00:00.000Z',
    period_end: '2030-01-31T00:00:00.000Z',
    cancel_at_period_end: false,
  }
  expect(JSON.parse((await tollgate(...GOOD, '--json')).stdout)).toEqual(first)
  await clock.turn(86_400_000)
  const changed = await tollgate(
    ...[
      'set',
      ...ORG,
      '--plan',
      'team',
      '--status',
      'past_due',
      '--until',
      '2030-02-05',
      '--cancel-at-period-end',
      '--json',
    ],
  )
  expect(JSON.parse(changed.stdout)).toEqual({
    ...first,
    plan: 'team',
    status: 'past_due',
    period_end: '2030-02-05T00:00:00.000Z',
    cancel_at_period_end: true,
  })
  expect((await tollgate('show', ...ORG)).stdout).toContain('It covers no calls now.')
  await clock.turn(60 * 86_400_000)
  const renewed = await tollgate(...GOOD, '--from', '2030-03-01', '--json')
  expect(JSON.parse(renewed.stdout)).toMatchObject({ period_start: '2030-03-01T00:00:00.000Z' })
  const shown = await tollgate('show', ...ORG)
  expect(shown.stdout).toContain('It covers calls now.\nInput tokens: 0 of 100\nOutput tokens: 0 of 50\n')
  expect(JSON.parse((await tollgate('show', ...ORG, '--json')).stdout)).toMatchObject({
    plan: 'starter',
    entitled: true,
    weekly_tokens: '0',
    list_usd: '0.00',
  })
})

test('in the grace it covers calls, and says until when; renewed then, its period begins anew', async () => {
  const other = ['--org', 'organization 2']
  const set = (...more: string[]) => tollgate('set', ...other, '--plan', 'starter', '--status', 'active', ...more)
  const startMs = clock.now()
  await set('--until', '1d')
  await clock.turn(DAY_MS + HOUR_MS / 2)
  const shown = await tollgate('show', ...other)
  const endsAt = toTimestamp(startMs + DAY_MS + HOUR_MS)
  expect(shown.stdout).toContain(`Its period has ended. Until it is renewed it covers calls to ${endsAt}.`)
  expect(JSON.parse((await tollgate('show', ...other, '--json')).stdout)).toMatchObject({ entitled: true })
  const before = ['--from', toTimestamp(startMs), '--until', toTimestamp(startMs + DAY_MS)]
  await set(...before, '--cancel-at-period-end')
  expect((await tollgate('show', ...other)).stdout).toContain('It covers no calls now.')
  await set(...before)
  const renewed = await set('--until', '30d', '--json')
  expect(JSON.parse(renewed.stdout)).toMatchObject({ period_start: toTimestamp(clock.now()) })
  expect((await tollgate('show', ...other)).stdout).toContain('It covers calls now.')
  await set(...before)
  await clock.turn(HOUR_MS / 2)
  expect((await tollgate('show', ...other)).stdout).toContain('It covers no calls now.')
})

test.each([
  [['set', ...ORG, '--plan', 'startr', '--status', 'active', '--until', '30d'], 1, 'use starter, team'],
  [['set', ...ORG, '--plan', 'starter', '--status', 'aktiv', '--until', '30d'], 2, 'use one of active, trialing'],
  [['set', ...ORG, '--plan', 'starter', '--status', 'active', '--until', 'soon'], 2, 'an ISO date such as'],
  [[...GOOD, '--from', '2031-01-01'], 2, 'must be after'],
  [[...GOOD, '--config', 'bare.yaml'], 1, "add a section 'plans'"],
  [['set', '--org', 'nobody', '--plan', 'starter', '--status', 'active', '--until', '30d'], 1, 'no organization named'],
  [['show', '--org', 'nobody'], 1, 'no organization named'],
])('%j is refused', async (argv, exitCode, says) => {
  const refused = await tollgate(...argv)
  expect([refused.exitCode, refused.stdout]).toEqual([exitCode, ''])
  expect(refused.stderr).toContain(says)
})

test('an organization with a live subscription at a payment provider is left to that', async () => {
  await house.database.query(
    `insert into payment_subscriptions (provider, subscription, organization_id, status, price, period_start, period_end, created_at)
     select 'stripe', 'sub_1', id, 'active', 'price_1', $1, $1, $1 from organizations where name = 'organization 2'`,
    [new Date(NOW_MS)],
  )
  const words = ['set', '--org', 'organization 2', '--plan', 'starter', '--status', 'active', '--until', '30d']
  expect(await tollgate(...words)).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('payment provider') })
  await house.database.query("update payment_subscriptions set status = 'canceled'")
  expect(await tollgate(...words)).toMatchObject({ exitCode: 0 })
})
