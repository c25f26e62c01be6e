/** The audit log of an organization has each change that an operator makes with a shell on the server. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TurnedClock } from '../../test/clock.ts'
import { runCommand } from '../../test/commandContext.ts'
import { type FreshDatabase, freshDatabase } from '../../test/postgres.ts'
import { loadConfig } from '../config/config.ts'
import { listChanges } from '../identity/audit/list.ts'

const NOON_MS = Date.UTC(2031, 6, 2, 12)
const clock = new TurnedClock(NOON_MS)
const PLANS = `plans:
  - { key: starter, name: Starter, input_tokens_monthly: 100, output_tokens_monthly: 50, weekly_tokens: 90 }
`
let fresh: FreshDatabase
let folder: string
let organizationId: string
beforeAll(async () => {
  fresh = await freshDatabase()
  folder = await mkdtemp(join(tmpdir(), 'tollgate-audited-'))
  await writeFile(join(folder, 'tollgate.yaml'), PLANS)
  organizationId = String((await json('orgs', 'create', 'acme'))['id'])
})
afterAll(async () => {
  await fresh.drop()
  await rm(folder, { recursive: true })
})

async function tollgate(...argv: string[]) {
  // Entries of one millisecond have no order.
  await clock.turn(1)
  const loadFrom: typeof loadConfig = (flags) => loadConfig(flags, {}, folder)
  return runCommand(argv, { database: fresh.database, clock }, { loadConfig: loadFrom })
}
async function json(...argv: string[]): Promise<Record<string, unknown>> {
  const ran = await tollgate(...argv, '--json')
  expect(ran).toMatchObject({ exitCode: 0, stderr: '' })
  return JSON.parse(ran.stdout)
}

let seen = 0
/** Returns the entries that have come since it was last asked, the oldest first, each by an operator without a name. */
async function entries() {
  const all = (await listChanges(fresh.database, organizationId, null, 100)).reverse()
  const added = all.slice(seen)
  seen = all.length
  for (const { actor } of added) expect(actor).toEqual({ kind: 'operator', id: null, address: null })
  return added.map(({ action, subjectId, before, after }) => ({ action, subjectId, before, after }))
}

test('that it was made', async () => {
  const after = { name: 'acme', standing: 'established' }
  expect(await entries()).toEqual([{ action: 'organization.created', subjectId: organizationId, before: null, after }])
})

test('its freezes, once each, without their reasons and notes', async () => {
  const freeze = ['orgs', 'freeze', 'acme', '--reason', 'operator', '--note', 'hi']
  await json(...freeze)
  await json(...freeze)
  await json('orgs', 'unfreeze', 'acme', '--reason', 'operator')
  expect(await tollgate('orgs', 'unfreeze', 'acme', '--reason', 'operator')).toMatchObject({ exitCode: 1 })
  const [no, yes] = [{ frozen: false }, { frozen: true }]
  expect(await entries()).toEqual([
    { action: 'organization.frozen', subjectId: organizationId, before: no, after: yes },
    { action: 'organization.unfrozen', subjectId: organizationId, before: yes, after: no },
  ])
})

test('its credit and corrections of its balance, with their sources in the ledger', async () => {
  const granted = await json('credits', 'grant', '--org', 'acme', '--usd', '12.50', '--note', 'invoice')
  const adjusted = await json('adjustments', 'create', '--org', 'acme', '--usd', '-0.00000001', '--note', 'twice')
  const [grant, adjustment] = [
    { amount_cents: 1250, promotional: false, source: granted['source'] },
    { amount_cents: -0.000001, source: adjusted['source'] },
  ]
  expect(await entries()).toEqual([
    { action: 'credit.granted', subjectId: organizationId, before: null, after: grant as never },
    { action: 'balance.adjusted', subjectId: organizationId, before: null, after: adjustment as never },
  ])
})

test('who is told of its limits, where that changes', async () => {
  await json('orgs', 'update', 'acme', '--notify', 'ada@example.com')
  await json('orgs', 'update', 'acme', '--notify', 'ada@example.com')
  const [before, after] = [{ notify_addresses: '' }, { notify_addresses: 'ada@example.com' }]
  expect(await entries()).toEqual([{ action: 'organization.changed', subjectId: organizationId, before, after }])
})

test('its keys, made and revoked, without their secrets', async () => {
  const { id, key } = await json(
    'keys',
    'create',
    '--org',
    'acme',
    '--scope',
    'full_access',
    '--admin',
    '--name',
    'web',
  )
  await json('keys', 'revoke', String(id))
  await json('keys', 'revoke', String(id))
  const fields = { name: 'web', scope: 'full_access', admin: true, member_id: null, expires_at: null }
  const found = await entries()
  expect(found).toEqual([
    { action: 'key.created', subjectId: String(id), before: null, after: fields },
    { action: 'key.revoked', subjectId: String(id), before: fields, after: null },
  ])
  expect(JSON.stringify(found)).not.toContain(String(key))
})

test('its subscription, where that changes', async () => {
  const set = (...more: string[]) =>
    json('subscriptions', 'set', '--org', 'acme', '--plan', 'starter', '--until', '2031-08-01', ...more)
  await set('--status', 'active')
  await set('--status', 'active')
  await set('--status', 'past_due')
  const period_start = expect.stringMatching(/^2031-07-02T12:00:00/) as never
  const after = {
    ...{ plan: 'starter', status: 'active', period_start, period_end: '2031-08-01T00:00:00.000Z' },
    cancel_at_period_end: false,
  }
  const [was, is] = [{ status: 'active' }, { status: 'past_due' }]
  expect(await entries()).toEqual([
    { action: 'subscription.changed', subjectId: organizationId, before: null, after },
    { action: 'subscription.changed', subjectId: organizationId, before: was, after: is },
  ])
})
