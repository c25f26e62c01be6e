/** Organizations that an operator deletes by a command, the first one among them. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { TurnedClock } from '../../test/clock.ts'
import { runCommand } from '../../test/commandContext.ts'
import { type FreshDatabase, freshDatabase } from '../../test/postgres.ts'
import { makeFirstKey } from '../app/firstStart.ts'
import { openAccount } from '../billing/admission/balance/balance.ts'
import { makeSetUpLink, setUpFirstPerson } from '../identity/accounts/entry/setUp.ts'

const clock = new TurnedClock(Date.UTC(2031, 6, 2, 12))
const random = (length: number) => randomBytes(length)

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

const tollgate = (...argv: string[]) => runCommand(argv, { database: fresh.database, clock })
async function json(...argv: string[]): Promise<Record<string, unknown>> {
  const ran = await tollgate(...argv, '--json')
  expect(ran).toMatchObject({ exitCode: 0, stderr: '' })
  return JSON.parse(ran.stdout)
}

/** An organization with $50 and two keys; returns its id. */
async function made(name: string): Promise<string> {
  const { id } = await json('orgs', 'create', name)
  await tollgate('credits', 'grant', '--org', name, '--usd', '50')
  for (const label of ['one', 'two'])
    await tollgate('keys', 'create', '--org', name, '--name', label, '--scope', 'full_access')
  return String(id)
}

test('is told the name twice, and says what ended', async () => {
  const id = await made('acme')
  expect(await tollgate('orgs', 'delete', 'acme')).toMatchObject({ exitCode: 2 })
  const wrong = await tollgate('orgs', 'delete', 'acme', '--confirm', 'acne')
  expect(wrong).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("The name is not this organization's") })
  expect(await json('orgs', 'show', 'acme')).toMatchObject({ deleted_at: null, active_keys: 2 })
  const deleted = await tollgate('orgs', 'delete', 'acme', '--confirm', 'acme')
  expect(deleted).toMatchObject({ exitCode: 0, stderr: '' })
  expect(deleted.stdout).toContain(`Deleted the organization ${id}, with 2 API keys, 0 members`)
  for (const name of ['acme', id])
    expect(await tollgate('orgs', 'delete', name, '--confirm', name)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('There is no organization named'),
    })
})

test('leaves a row with the balance, which the commands of the books find by its id', async () => {
  const id = await made('books')
  expect(await json('orgs', 'delete', 'books', '--confirm', 'books')).toEqual({
    id,
    deleted: true,
    ended: { members: 0, keys: 2, videos: 0, instances: 0, webhook_endpoints: 0, subscriptions: 0 },
  })
  expect((await tollgate('orgs', 'list')).stdout).toMatch(new RegExp(`-  +${id}  deleted, \\$50\\.00`))
  const shown = await tollgate('orgs', 'show', id)
  expect(shown.stdout).toMatch(/Deleted +2031-07-02 12:00/)
  expect(shown.stdout).toMatch(/Balance +\$50/)
  expect(shown.stdout).not.toContain('books')
  expect((await tollgate('credits', 'list', '--org', id)).stdout).toContain('credit')
  expect((await tollgate('charges', 'list', '--org', id)).exitCode).toBe(0)
  expect((await tollgate('usage', '--org', id)).exitCode).toBe(0)
  const adjusted = await json('adjustments', 'create', '--org', id, '--usd', '-50', '--note', 'paid back')
  expect(adjusted).toMatchObject({ amount_usd: '-50.00' })
  expect(await json('orgs', 'show', id)).toMatchObject({ balance_usd: '0.00' })
  expect((await tollgate('ledger', 'verify')).exitCode).toBe(0)
})

test('is missing to every command that gives it something, and its name is free', async () => {
  const id = await made('gone')
  await tollgate('orgs', 'delete', 'gone', '--confirm', 'gone')
  for (const argv of [
    ['keys', 'create', '--org', id, '--scope', 'full_access'],
    ['keys', 'list', '--org', id],
    ['credits', 'grant', '--org', id, '--usd', '5'],
    ['orgs', 'update', id, '--notify', 'a@example.com'],
    ['orgs', 'freeze', id, '--reason', 'operator'],
    ['orgs', 'show', 'gone'],
    ['orgs', 'show', `deleted ${id}`],
  ])
    expect([argv, await tollgate(...argv)]).toMatchObject([
      argv,
      { exitCode: 1, stderr: expect.stringContaining('There is no organization named') },
    ])
  expect(await json('orgs', 'create', 'gone')).toMatchObject({ name: 'gone' })
})

test('of the organization “default” takes it away for good: no start makes it anew, with another gift and key', async () => {
  const { database } = fresh
  expect(await makeFirstKey(database, clock, random, async () => {})).toBeNull()
  await database.query('truncate organizations cascade')
  expect(await makeFirstKey(database, clock, random, async () => {})).toEqual(expect.any(String))
  await tollgate('orgs', 'delete', 'default', '--confirm', 'default')
  expect(await makeFirstKey(database, clock, random, async () => {})).toBeNull()
  expect(await database.query('select 1 from organizations where deleted_at is null')).toEqual([])

  // The first person owns an organization of this name all the same, which has nothing in it.
  const secret = (await makeSetUpLink({ database, clock, random }))?.reveal() ?? ''
  const passwords = { hash: async () => 'hash' }
  const person = { name: 'Ada', email: 'ada@example.com', password: 'a long enough phrase' }
  const dependencies = { database, clock, random, passwords, openAccount }
  expect(await setUpFirstPerson(dependencies, secret, person, '::1')).toMatchObject({ ok: true })
  expect(await makeFirstKey(database, clock, random, async () => {})).toBeNull()
  expect(await json('orgs', 'show', 'default')).toMatchObject({ balance_usd: '0.00', active_keys: 0 })
  const refused = await tollgate('orgs', 'delete', 'default', '--confirm', 'default')
  expect(refused).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('operators remove EMAIL') })
  await tollgate('operators', 'remove', 'ada@example.com')
  expect(await tollgate('orgs', 'delete', 'default', '--confirm', 'default')).toMatchObject({ exitCode: 0 })
})
