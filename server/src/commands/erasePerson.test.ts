/** `tollgate users erase`, for an operator who is asked by mail. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type AccountsHouse, openAccountsHouse } from '../../test/accountsHouse.ts'
import { runCommand } from '../../test/commandContext.ts'
import { until } from '../../test/until.ts'
import type { Visitor } from '../../test/visitor.ts'
import { loadConfig } from '../config/config.ts'
import { systemClock } from '../infra/clock.ts'

const EMAIL = 'asks-by-mail@example.com'
const folder = mkdtempSync(join(tmpdir(), 'tollgate-erase-'))

let house: AccountsHouse
let owner: Visitor
beforeAll(async () => {
  house = await openAccountsHouse()
  owner = await house.owner()
  writeFileSync(join(folder, 'tollgate.yaml'), 'accounts: {}\npublic_url: https://gateway.example\n')
}, 60_000)
afterAll(async () => {
  await house.gateway.close()
  rmSync(folder, { recursive: true, force: true })
})

const run = (...argv: string[]) =>
  runCommand(
    ['users', 'erase', ...argv],
    { database: house.gateway.database, clock: systemClock },
    { loadConfig: (flags) => loadConfig(flags, {}, folder) },
  )
const rows = <Row>(text: string) => house.gateway.database.query<Row>(text)

test('is told the address twice, and erases nothing else', async () => {
  const member = await house.join(owner, EMAIL, 'admin')
  expect((await run(EMAIL)).exitCode).toBe(2)
  const { exitCode, stdout, stderr } = await run(EMAIL, '--confirm', 'ada@example.com')
  expect([exitCode, stdout, stderr]).toEqual([1, '', expect.stringContaining('nothing was erased')])
  const unknown = await run('nobody@example.com', '--confirm', 'nobody@example.com')
  expect([unknown.exitCode, unknown.stderr]).toEqual([1, expect.stringContaining('obody has an account')])
  expect((await run('nobody', '--confirm', 'nobody')).stderr).toContain('"nobody" is no mail address')
  expect((await member.open('/account')).status).toBe(200)
}, 30_000)

test('erases: sessions and keys end, and the log says that an operator did it', async () => {
  const member = house.browser()
  await member.fill('/account/sign-in', { email: EMAIL, password: 'a long enough phrase' })
  const made = await member.call('POST', '/manage/v1/keys', { name: 'k', scope: 'full_access' })
  const { key } = await made.json()
  const { exitCode, stdout } = await run(EMAIL.toUpperCase(), '--confirm', EMAIL)
  expect([exitCode, stdout]).toEqual([
    0,
    `Erased ${EMAIL}. Memberships that have ended: 1. Keys that were revoked: 1.\n`,
  ])
  expect((await member.open('/account')).location).toBe('/account/sign-in')
  expect((await house.gateway.get({ key } as never, '/billing/balance')).status).toBe(401)
  expect(await rows("select actor_kind, actor_id from audit_entries where action = 'person.erased'")).toEqual([
    { actor_kind: 'operator', actor_id: null },
  ])
  expect(await rows(`select 1 from users where email = '${EMAIL}'`)).toEqual([])
  expect((await run(EMAIL, '--confirm', EMAIL)).stderr).toContain('obody has an account with the address')
}, 30_000)

test('an address that was invited and never joined is erased everywhere', async () => {
  const guest = 'invited-once@example.com'
  for (const role of ['member', 'admin'])
    expect((await owner.call('POST', '/manage/v1/invitations', { email: guest, role })).status).toBe(201)
  const told = { notify_addresses: ['ops@example.com', guest] }
  expect((await owner.call('PATCH', '/manage/v1/organization', told)).status).toBe(200)
  const link = await house.linkTo(guest)
  const { exitCode, stdout } = await run(guest, '--confirm', guest)
  expect([exitCode, stdout]).toEqual([
    0,
    `Nobody has an account with ${guest}. The address was erased where it stood. Invitations: 2. Entries of the audit log: 4. Organizations that told it of their limits: 1.\n`,
  ])
  for (const table of ['invitations', 'account_links', 'audit_entries', 'organizations', 'jobs'])
    expect(await rows(`select 1 from ${table} t where t::text like '%${guest}%'`)).toEqual([])
  expect((await house.browser().open(link)).status).toBe(404)
  const [entry] = await rows<object>(
    "select actor_kind, subject_id, before, after from audit_entries where action = 'address.erased'",
  )
  expect(entry).toEqual({ actor_kind: 'operator', subject_id: null, before: null, after: null })
  expect((await run(guest, '--confirm', guest, '--json')).exitCode).toBe(1)
}, 30_000)

test('the last owner and the last operator are refused', async () => {
  const { exitCode, stderr } = await run('ada@example.com', '--confirm', 'ada@example.com')
  expect([exitCode, stderr]).toEqual([1, expect.stringContaining('the last operator of this server')])
  await rows("update users set is_operator = false where email = 'ada@example.com'")
  const last = await run('ada@example.com', '--confirm', 'ada@example.com', '--json')
  expect(last.stderr).toContain('the last owner of “default”')
  expect((await owner.open('/account')).status).toBe(200)
})

test('the last mail is enqueued where the settings have a mail server, and only there', async () => {
  expect(await rows("select 1 from jobs where kind = 'last mail'")).toEqual([])
  await house.join(owner, 'told@example.com')
  const smtp = 'smtp: { host: mail.example.com, tls: none, from: "Tollgate <t@example.com>" }\n'
  writeFileSync(join(folder, 'tollgate.yaml'), `accounts: {}\npublic_url: https://gateway.example\n${smtp}`)
  expect((await run('told@example.com', '--confirm', 'told@example.com')).exitCode).toBe(0)
  // The server of this house has no mail server: it gives the mail up, and keeps no address.
  await until(async () => (await rows("select 1 from jobs where kind = 'last mail' and state = 'dead'")).length === 1)
  expect(await rows("select payload, error from jobs where kind = 'last mail'")).toEqual([
    { payload: {}, error: 'there is no mail server' },
  ])
}, 30_000)
