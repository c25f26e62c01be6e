/** An operator reads the records of an organization: its account, its charges, its usage, its credits, its keys. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type Books, openBooks } from '../../test/books.ts'
import { TurnedClock } from '../../test/clock.ts'
import { runCommand } from '../../test/commandContext.ts'
import { setSpendingLimit } from '../billing/limits/set.ts'
import { setSubscription } from '../billing/plans/setSubscription.ts'
import { systemRandom } from '../infra/random.ts'
import { uuidV7 } from '../lib/ids.ts'
import { DAY_MS, HOUR_MS } from '../lib/time.ts'

const START_MS = Date.UTC(2030, 0, 10, 12)
const clock = new TurnedClock(START_MS)
const random = systemRandom()
let books: Books
let organizationId: string
const NAME = 'organization 1'
const NO_CHARGE = '01920e4c-7c00-4c3a-9d5e-0a6f4f1b2c3d'
beforeAll(async () => {
  books = await openBooks(clock)
  organizationId = await books.organization(10n ** 10n)
}, 60_000)
afterAll(() => books.drop())

const tollgate = (...argv: string[]) => runCommand(argv, { database: books.database, clock })
async function json(...argv: string[]): Promise<Record<string, unknown>[]> {
  const ran = await tollgate(...argv, '--json')
  expect(ran).toMatchObject({ exitCode: 0, stderr: '' })
  return JSON.parse(ran.stdout)
}
async function text(...argv: string[]): Promise<string> {
  const ran = await tollgate(...argv)
  expect(ran).toMatchObject({ exitCode: 0, stderr: '' })
  for (const line of ran.stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80)
  return ran.stdout
}

/** The ids of a list, read by pages of one row: each behind the row that the notice names. */
async function pages(...argv: string[]): Promise<unknown[]> {
  const ids: unknown[] = []
  for (let after: string[] = []; ids.length < 100; ) {
    const { exitCode, stdout, stderr } = await tollgate(...argv, '--limit', '1', '--json', ...after)
    expect(exitCode).toBe(0)
    ids.push(...JSON.parse(stdout).map(({ id }: { id: string }) => id))
    if (stderr === '') return ids
    const { code, after: last } = JSON.parse(stderr).notice
    expect([code, last]).toEqual(['more', ids.at(-1)])
    after = ['--after', String(last)]
  }
  throw new Error('the pages have no end')
}

test('charges and credits of one millisecond are on one page each, none twice and none left out', async () => {
  const tied = await books.organization(10n ** 10n)
  const org = ['--org', 'organization 2']
  for (let count = 0; count < 3; count += 1) {
    const atMs = START_MS - HOUR_MS
    await books.post(tied, atMs, { costMicrocents: 1n, chargeId: uuidV7(atMs, random) })
    await tollgate('credits', 'grant', ...org, '--usd', '1')
  }
  for (const noun of ['charges', 'credits']) {
    const all = (await json(noun, 'list', ...org, '--all')).map(({ id }) => id)
    expect(await pages(noun, 'list', ...org)).toEqual(all)
    expect(new Set(all).size).toBe(noun === 'charges' ? 3 : 4)
  }
})

test('charges are listed newest first, within a window, at most as many as asked for', async () => {
  const ids: string[] = []
  for (const agoMs of [3 * DAY_MS, 2 * HOUR_MS, HOUR_MS]) {
    const atMs = START_MS - agoMs
    const chargeId = uuidV7(atMs, random)
    await books.post(organizationId, atMs, { costMicrocents: 2_500_000n, chargeId })
    ids.unshift(chargeId)
  }
  const listed = await json('charges', 'list', '--org', NAME)
  expect(listed.map(({ id }) => id)).toEqual(ids)
  expect(listed[0]).toMatchObject({ cost_usd: '0.025', outcome: 'completed', plan_covered: false, modality: 'chat' })
  const recent = await json('charges', 'list', '--org', NAME, '--start', '1d')
  expect(recent.map(({ id }) => id)).toEqual(ids.slice(0, 2))
  const old = await json('charges', 'list', '--org', NAME, '--end', '2030-01-09')
  expect(old.map(({ id }) => id)).toEqual(ids.slice(2))
  expect(await pages('charges', 'list', '--org', NAME)).toEqual(ids)
  const shown = await text('charges', 'list', '--org', NAME, '--limit', '2')
  expect(shown).toContain(ids[0] ?? '')
  expect(shown).toContain(`There are more: add --after ${ids[1]}, or --all.`)
  expect(shown).not.toContain(ids[2] ?? '')
  expect(await text('charges', 'list', '--org', NAME, '--end', '2029-01-01')).toContain('has no charges from')
})

test('a list of all charges ends whole where retention drops its oldest day between two pages', async () => {
  const many = await books.organization(10n ** 10n)
  await books.post(many, START_MS - HOUR_MS, { costMicrocents: 1n, chargeId: uuidV7(START_MS - HOUR_MS, random) })
  // More than a page of `--all`.
  await books.database.query(
    `insert into charges select (jsonb_populate_record(c, jsonb_build_object('id', left(id::text, 24) || lpad(to_hex(n), 12, '0')))).*
     from charges c, generate_series(1, 1200) n where organization_id = $1::uuid`,
    [many],
  )
  let stdout = ''
  const { exitCode, stderr } = await runCommand(
    ['charges', 'list', '--org', 'organization 3', '--all', '--json'],
    { database: books.database, clock },
    {
      async print(text) {
        stdout += text
        await books.database.query('delete from charges where organization_id = $1::uuid', [many])
      },
    },
  )
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
  expect(JSON.parse(stdout)).toHaveLength(1_000)
})

test('usage is given by buckets, as customers see it', async () => {
  expect(await json('usage', '--org', NAME, '--start', '7d', '--bucket', 'day')).toEqual([
    { bucket_start: '2030-01-07T00:00:00.000Z', cost_cents: 2 },
    { bucket_start: '2030-01-10T00:00:00.000Z', cost_cents: 5 },
  ])
  expect(await text('usage', '--org', NAME)).toBe(
    'DAY               USD\n2030-01-07 00:00  0.02\n2030-01-10 00:00  0.05\n',
  )
  const one = await text('usage', '--org', NAME, '--limit', '1')
  expect(one).toContain('There are more after 2030-01-07 00:00')
})

test('credits are listed newest first, with refunds and adjustments', async () => {
  await clock.turn(1_000)
  await tollgate('credits', 'grant', '--org', NAME, '--usd', '12.50', '--note', 'invoice 7')
  await clock.turn(1_000)
  await tollgate('adjustments', 'create', '--org', NAME, '--usd', '-5', '--note', 'credited twice')
  const listed = await json('credits', 'list', '--org', NAME)
  expect(listed.slice(0, 2)).toMatchObject([
    { kind: 'adjustment', amount_usd: '-5.00', note: 'credited twice', posted_at: '2030-01-10T12:00:02.000Z' },
    { kind: 'credit', amount_usd: '12.50', note: 'invoice 7' },
  ])
  expect(await pages('credits', 'list', '--org', NAME)).toEqual(listed.map(({ id }) => id))
  expect(await text('credits', 'list', '--org', NAME, '--limit', '1')).toContain('There are more: add --after')
})

test('an organization is shown with its balance, limits, spend, plan and keys', async () => {
  const limit = { monthlyDollars: 100, dailyDollars: 10, enforcement: undefined, autoTerminateHours: undefined }
  await setSpendingLimit({ database: books.database, clock }, organizationId, limit)
  const subscription = { planKey: 'starter', status: 'active', periodStartMs: START_MS, periodEndMs: START_MS + DAY_MS }
  await setSubscription(books.database, organizationId, { ...subscription, cancelAtPeriodEnd: false }, clock.now())
  await tollgate('keys', 'create', '--org', NAME, '--scope', 'read_only', '--name', 'web shop')
  const ran = await tollgate('orgs', 'show', NAME, '--json')
  expect(JSON.parse(ran.stdout)).toMatchObject({
    ...{ name: NAME, balance_usd: '107.425', held_usd: '0.00', day_spend_usd: '0.05', month_spend_usd: '0.075' },
    ...{ daily_limit_usd: '10.00', monthly_limit_usd: '100.00', enforcement: 'block_launch', active_keys: 1 },
    ...{ plan: 'starter', plan_status: 'active', plan_period_end: '2030-01-11T12:00:00.000Z', is_new: false },
  })
  const shown = await text('orgs', 'show', NAME)
  expect(shown).toMatch(/^Balance +\$107\.425$/m)
  expect(shown).toMatch(/^Spent today +\$0\.05 of \$10\.00$/m)
  expect(shown).toMatch(/^Plan +starter, active, to 2030-01-11 12:00$/m)
  expect((await tollgate('orgs', 'show', 'nobody')).exitCode).toBe(1)
})

test('a key has a name, which lists show', async () => {
  const key = (await json('keys', 'list', '--org', NAME)).at(-1)
  expect(key).toMatchObject({ name: 'web shop', scopes: expect.any(String) })
  expect(await text('keys', 'list', '--org', NAME)).toContain('web shop')
  for (const name of [' ', 'x'.repeat(101), 'two\nlines']) {
    const refused = await tollgate('keys', 'create', '--org', NAME, '--scope', 'read_only', '--name', name)
    expect(refused).toMatchObject({ exitCode: 2, stdout: '' })
    expect(refused.stderr).toContain('--name: This is not a name for a key: use 1 to 100 characters on one line')
  }
})

test.each([
  [['charges', 'list', '--org', NAME, '--limit', '1001'], 'use 1 to 1000'],
  [['charges', 'list', '--org', NAME, '--limit', '0'], 'use 1 to 1000'],
  [['charges', 'list', '--org', NAME, '--limit', '1e2'], 'use 1 to 1000'],
  [['charges', 'list', '--org', NAME, '--start', '1d', '--end', '2d'], '--start must be before --end'],
  [
    ['charges', 'list', '--org', NAME, '--after', NO_CHARGE],
    'is no charge of "organization 1": use the last id of a page',
  ],
  [['charges', 'list', '--org', NAME, '--after', NO_CHARGE.replace('-4', '-7')], 'is no charge of "organization 1"'],
  [['credits', 'list', '--org', NAME, '--after', NO_CHARGE], 'is no entry of "organization 1"'],
  [['usage', '--org', NAME, '--limit', '201'], 'use 1 to 200'],
  [['usage', '--org', NAME, '--bucket', 'year'], 'use one of hour, day, week, month'],
  [['usage', '--org', NAME, '--start', 'yesterday'], 'use a time ago such as 7d'],
  [['credits', 'list', '--org', NAME, '--end', '2030-02-30'], 'use a time ago such as 7d'],
] as const)('%j is refused', async (argv, sentence) => {
  const refused = await tollgate(...argv)
  expect(refused).toMatchObject({ exitCode: 2, stdout: '' })
  expect(refused.stderr).toContain(sentence)
})

test('a key whose result could not be written is revoked, and the exit code is 1', async () => {
  const full = { print: () => Promise.reject(Object.assign(new Error('no space'), { code: 'ENOSPC' })) }
  const argv = ['keys', 'create', '--org', NAME, '--scope', 'full_access', '--name', 'lost']
  const ran = await runCommand(argv, { database: books.database, clock }, full)
  expect(ran.exitCode).toBe(1)
  expect(ran.stderr).toContain("the result can't be written to standard output (ENOSPC)")
  const lost = (await json('keys', 'list', '--org', NAME)).find(({ name }) => name === 'lost')
  expect(lost).toMatchObject({ state: 'revoked' })
  expect(ran.stderr).toContain(`the key ${lost?.['id']} was revoked`)
  const broken = await runCommand(['orgs', 'list'], { database: books.database, clock }, full)
  expect(broken.exitCode).toBe(1)
})

test('models that are found on this machine are listed beside those of the settings', async () => {
  const found = [
    {
      kind: 'http',
      product: 'Ollama',
      baseUrl: 'http://127.0.0.1:11434/v1',
      models: ['llama3.2:1b'],
      embeddingModels: [],
    },
  ] as const
  const parts = { findModels: async () => found }
  const ran = await runCommand(['models', 'list'], { database: books.database, clock }, parts)
  expect(ran).toMatchObject({ exitCode: 0, stderr: '' })
  expect(ran.stdout).toContain('svc/llama3.2-1b')
  expect(ran.stdout).toContain('A server offers the found models that were there when it started')
  for (const line of ran.stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80)
})
