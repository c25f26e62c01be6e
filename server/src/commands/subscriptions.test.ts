import { afterAll, beforeAll, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TurnedClock } from '../../test/clock.ts'
import { type House, openHouse } from '../../test/moneyHouse.ts'
import { loadConfig } from '../config.ts'
import { run } from './run.ts'

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
  folder = await mkdtemp(join(tmpdir(), 'subscriptions-'))
  await writeFile(join(folder, 'tollgate.yaml'), PLANS)
  await writeFile(join(folder, 'bare.yaml'), 'owned_by: acme\n')
}, 60_000)
afterAll(async () => {
  await house.drop()
  await rm(folder, { recursive: true })
})

/** Runs a command line with the test's database, and gives what it printed. */
async function tollgate(...argv: string[]) {
  const printed = { stdout: '', stderr: '' }
  const exitCode = await run(['subscriptions', ...argv], {
    clock,
    randomBytes: (length) => randomBytes(length),
    stdout: (text) => {
      printed.stdout += text
    },
    stderr: (text) => {
      printed.stderr += text
    },
    stderrIsTerminal: false,
    openDatabase: async () => ({ database: house.database, migrated: [], release: async () => {} }),
    loadConfig: (flags) => loadConfig(flags, {}, folder),
    dataDirectory: () => '/data',
    pullModel: () => Promise.reject(new Error('nothing is pulled here')),
    fetch: () => Promise.reject(new Error('nothing is fetched here')),
    saveFile: () => Promise.reject(new Error('nothing is saved here')),
    checkFile: () => Promise.reject(new Error('nothing is saved here')),
    onInterrupt: () => () => {},
    server: () => {
      throw new Error('no server is talked to here')
    },
    serve: async () => 0,
  })
  return { exitCode, ...printed }
}

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
