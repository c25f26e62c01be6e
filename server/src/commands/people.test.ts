import { afterAll, beforeAll, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TurnedClock } from '../../test/clock.ts'
import { runCommand } from '../../test/commandContext.ts'
import { type FreshDatabase, freshDatabase } from '../../test/postgres.ts'
import { makeFirstKey } from '../app/firstStart.ts'
import { openAccount } from '../billing/admission/balance/balance.ts'
import { loadConfig } from '../config/config.ts'
import { setUpFirstPerson } from '../identity/accounts/entry/setUp.ts'
import { readLink } from '../identity/accounts/links/link.ts'

const clock = new TurnedClock(Date.UTC(2030, 0, 1))
const folder = mkdtempSync(join(tmpdir(), 'tollgate-people-'))
const random = (length: number) => randomBytes(length)

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
  await makeFirstKey(fresh.database, clock, random, async () => {})
  writeFileSync(join(folder, 'tollgate.yaml'), 'accounts: {}\npublic_url: https://gateway.example\n')
})
afterAll(async () => {
  await fresh.drop()
  rmSync(folder, { recursive: true, force: true })
})

const run = (...argv: string[]) =>
  runCommand(argv, { database: fresh.database, clock }, { loadConfig: (flags) => loadConfig(flags, {}, folder) })

const secretIn = (text: string) => /token=([\w-]+)/.exec(text)?.[1] ?? ''

test('a link to set up works for a day, and is made only until somebody has an account', async () => {
  const { stdout } = await run('users', 'set-up-link')
  expect(stdout).toContain('https://gateway.example/account/set-up?token=')
  const secret = secretIn(stdout)
  await clock.turn(86_400_000 - 1)
  expect(await readLink(fresh.database, clock, secret, 'set_up')).not.toBeNull()
  await clock.turn(1)
  expect(await readLink(fresh.database, clock, secret, 'set_up')).toBeNull()
  const next = secretIn((await run('users', 'set-up-link')).stdout)
  const passwords = { hash: async () => 'hash' }
  const wanted = { name: 'Ada', email: 'ada@example.com', password: 'a long enough phrase' }
  const made = await setUpFirstPerson(
    { database: fresh.database, clock, random, passwords, openAccount },
    next,
    wanted,
    '::1',
  )
  expect(made).toMatchObject({ ok: true })
  expect(await run('users', 'set-up-link')).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining('somebody has an account already'),
  })
})

test('a link to set a password works for 30 minutes, and only the newest', async () => {
  const first = secretIn((await run('users', 'reset-link', 'ADA@example.com')).stdout)
  const second = secretIn((await run('users', 'reset-link', 'ada@example.com', '--json')).stdout)
  expect(await readLink(fresh.database, clock, first, 'reset')).toBeNull()
  await clock.turn(30 * 60_000 - 1)
  expect(await readLink(fresh.database, clock, second, 'reset')).not.toBeNull()
  expect(await readLink(fresh.database, clock, second, 'set_up')).toBeNull()
  await clock.turn(1)
  expect(await readLink(fresh.database, clock, second, 'reset')).toBeNull()
})

test('for an address that nobody has there is no link', async () => {
  const { exitCode, stderr } = await run('users', 'reset-link', 'nobody@example.com')
  expect([exitCode, stderr]).toEqual([1, expect.stringContaining('Nobody has an account')])
})

test('without accounts in the settings there is none, and the settings file that was looked at is named', async () => {
  const elsewhere = mkdtempSync(join(tmpdir(), 'tollgate-people-'))
  const file = join(elsewhere, 'tollgate.yaml')
  for (const [content, says] of [
    [null, `no settings file was found, there is no ${file}; run this in the server's folder, or name`],
    ['drain_seconds: 5\n', `${file} has no section "accounts"; add it, or name`],
  ] as const) {
    if (content !== null) writeFileSync(file, content)
    for (const words of [
      ['users', 'set-up-link'],
      ['users', 'reset-link', 'ada@example.com'],
    ]) {
      const { exitCode, stderr } = await runCommand(
        words,
        { database: fresh.database, clock },
        { loadConfig: (flags) => loadConfig(flags, {}, elsewhere) },
      )
      expect([exitCode, stderr]).toEqual([1, expect.stringContaining(`accounts are off: ${says}`)])
    }
  }
  rmSync(elsewhere, { recursive: true, force: true })
})

test.each([
  ['accounts: { registration: true }\npublic_url: https://gateway.example\n', 1],
  ['accounts: { registration: true }\n', 0],
  ['accounts: {}\npublic_url: https://gateway.example\n', 0],
  [
    'accounts: { registration: true }\npublic_url: https://gateway.example\nsmtp: { host: mail.example, from: a@b.example }\n',
    0,
  ],
])('a check of the settings warns of a registration for which no mail is sent: %j', async (text, count) => {
  const elsewhere = mkdtempSync(join(tmpdir(), 'tollgate-people-'))
  writeFileSync(join(elsewhere, 'tollgate.yaml'), text)
  const check = (...more: string[]) =>
    runCommand(
      ['config', 'check', ...more],
      { database: fresh.database, clock },
      { loadConfig: (flags) => loadConfig(flags, {}, elsewhere) },
    )
  const { exitCode, stdout } = await check('--json')
  expect([exitCode, JSON.parse(stdout).warnings.length]).toEqual([0, count])
  expect((await check()).stdout.split('Warning: accounts.registration does nothing').length - 1).toBe(count)
  rmSync(elsewhere, { recursive: true, force: true })
})

test('operators are listed, added and removed; the first person is one', async () => {
  expect((await run('operators', 'list')).stdout).toBe('EMAIL            NAME\nada@example.com  Ada\n')
  expect((await run('operators', 'remove', 'Ada@example.com')).stdout).toBe(
    'ada@example.com is no operator now.\nThat was the last one. Nobody is an operator: make somebody one with "tollgate operators add EMAIL".\n',
  )
  expect((await run('operators', 'list')).stdout).toContain('Nobody is an operator')
  expect(JSON.parse((await run('operators', 'add', 'ada@example.com', '--json')).stdout)).toMatchObject({
    operator: true,
  })
  await run('operators', 'add', 'ada@example.com')
  const { exitCode, stderr } = await run('operators', 'add', 'nobody@example.com')
  expect([exitCode, stderr]).toEqual([1, expect.stringContaining('Nobody has an account')])
  const entries = await fresh.database.query<{ action: string }>(
    "select action from audit_entries where action like 'operator.%' order by action",
  )
  expect(entries.map(({ action }) => action)).toEqual(['operator.added', 'operator.removed'])
})
