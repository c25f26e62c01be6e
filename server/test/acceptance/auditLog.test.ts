/** The audit log has each change that somebody makes in an organization, by a key and by a session, with what it was and is. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type AccountsHouse, openAccountsHouse } from '../accountsHouse.ts'
import { TEST_XPUB } from '../deposits/depositHouse.ts'
import { BROWSER_ORIGIN, type Visitor } from '../visitor.ts'
import type { Document } from './description.ts'
import { PAYING_SETTINGS } from './paymentRows.ts'

/** A driver whose machines are nowhere: instances are accepted, and none comes to be. */
const DRIVER = '#!/bin/sh\n[ "$1" = list ] && echo \'{"machines":[]}\' || exit 1\n'

let folder: string
let house: AccountsHouse
let owner: Visitor
/** An admin's key of the same organization. */
let key: { readonly id: string; readonly key: string }
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tollgate-audited-'))
  const driver = join(folder, 'cloud')
  await writeFile(driver, DRIVER)
  await chmod(driver, 0o755)
  const settings = `${PAYING_SETTINGS.replace('https://tollgate.test', BROWSER_ORIGIN)}
accounts: {}
instances:
  driver: { kind: command, path: ${driver} }
  gpu_types: [{ name: a100, vram_gb: 80, count: 4, price_per_hour_cents: 120, disk_gb_max: 100 }]
  apps: [{ name: server, image: 'server:1', port: 8080, vram_gb_min: 40, models: [{ name: small, vram_gb: 20 }] }]
deposits: { xpub: ${TEST_XPUB}, chains: { ethereum: { rpc_urls: ['http://127.0.0.1:1'] } } }
`
  house = await openAccountsHouse({ settings })
  owner = await house.owner()
  const grant = `/manage/v1/operator/organizations/${house.organizationId}/credits`
  expect((await owner.call('POST', grant, { amount_cents: 100_000 })).status).toBe(201)
  const made = await owner.call('POST', '/manage/v1/keys', { name: 'robot', scope: 'full_access', admin: true })
  key = (await made.json()) as typeof key
})
afterAll(async () => {
  await house.gateway.close()
  await rm(folder, { recursive: true })
})

/** The action that the log has of each writing operation; or why it has none. */
const WRITES: Readonly<Record<string, string>> = {
  createChatCompletion: 'no change: a call, which is a charge',
  createEmbeddings: 'no change: a call, which is a charge',
  createImages: 'no change: a call, which is a charge',
  createVideo: 'no change: a job of a key, which is in the list of videos',
  cancelVideo: 'no change: a job of a key, which is in the list of videos',
  redeliver: 'no change: sends an event again, which is in the list of deliveries',
  testWebhookEndpoint: 'no change: sends a test, which is in the list of deliveries',
  changeSession: 'no change: the session of one person acts for another organization of that person',
  beginDeviceLogin: 'no change: nobody has agreed yet',
  createWebhookEndpoint: 'webhook_endpoint.created',
  deleteWebhookEndpoint: 'webhook_endpoint.deleted',
  setSpendingLimit: 'spending_limit.changed',
  setAutoPay: 'auto_pay.changed',
  createTopUp: 'top_up.opened',
  createSubscriptionCheckout: 'subscription_checkout.opened',
  createSubscriptionPortal: 'billing_portal.opened',
  createCryptoDeposit: 'deposit.created',
  createInstance: 'instance.created',
  deleteInstance: 'instance.deleted',
  createKey: 'key.created',
  changeKey: 'key.changed',
  rotateKey: 'key.rotated',
  revokeKey: 'key.revoked',
  revokeOwnKey: 'key.revoked',
  endSession: 'session.ended',
  changeMember: 'member.role_changed',
  removeMember: 'member.removed',
  createInvitation: 'invitation.created',
  withdrawInvitation: 'invitation.withdrawn',
  changeOrganization: 'organization.changed',
  deleteOrganization: 'organization.deleted',
  eraseOwnAccount: 'person.erased',
  exchangeDeviceCode: 'key.created',
}

test('no operation that writes is without a line in the table of this test', async () => {
  const { description, managed } = house.gateway
  const operations = [description, managed].flatMap(writingOperations).filter((id) => !OPERATORS.has(id))
  expect(operations.toSorted()).toEqual(Object.keys(WRITES).toSorted())
})

/** `app/operator/gateway.test.ts` has the entries of operators. */
const OPERATORS = new Set([
  'createOrganization',
  'deleteOperatedOrganization',
  'grantCredit',
  'freezeOrganization',
  'unfreezeOrganization',
])

function writingOperations({ paths }: Document): string[] {
  return Object.values(paths).flatMap((item) =>
    Object.entries(item)
      .filter(([method]) => method !== 'get')
      .map(([, { operationId }]) => String(operationId)),
  )
}

interface Entry {
  readonly id: string
  readonly action: string
  readonly actor: { readonly kind: string; readonly id: string; readonly address: string }
  readonly subject_id: string | null
  readonly before: object | null
  readonly after: object | null
}

interface Changed {
  readonly status: number
  readonly json: Record<string, unknown>
  /** The entries that the request has written, the oldest first. */
  readonly entries: readonly Entry[]
}

async function entriesNow(): Promise<readonly Entry[]> {
  const { data } = (await (await owner.call('GET', '/manage/v1/audit?limit=200')).json()) as { data: Entry[] }
  return data.toReversed()
}

const HEADERS = () => ({ 'Content-Type': 'application/json', 'Idempotency-Key': crypto.randomUUID() })

/** The two kinds of callers. */
const CALLERS: readonly ['session' | 'key'][] = [['session'], ['key']]
const ADDRESS_OF_KEY = '203.0.113.7'

async function change(by: 'session' | 'key', method: string, path: string, body?: unknown): Promise<Changed> {
  const before = new Set((await entriesNow()).map(({ id }) => id))
  const response =
    by === 'session'
      ? await owner.call(method, path, body, HEADERS())
      : await house.gateway.send(path, {
          method,
          headers: { Authorization: `Bearer ${key.key}`, ...HEADERS() },
          address: ADDRESS_OF_KEY,
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        })
  const text = await response.text()
  const entries = (await entriesNow()).filter(({ id }) => !before.has(id))
  return { status: response.status, json: text === '' ? {} : JSON.parse(text), entries }
}

/** The one entry of a change, without its id and time, of the caller that made it. */
function only({ entries }: Changed, by: 'session' | 'key') {
  const [entry, ...others] = entries
  expect(others).toEqual([])
  expect(entry?.actor).toEqual(
    by === 'session'
      ? { kind: 'user', id: expect.any(String), address: owner.address }
      : { kind: 'api_key', id: key.id, address: ADDRESS_OF_KEY },
  )
  return { action: entry?.action, subject: entry?.subject_id, before: entry?.before, after: entry?.after }
}

const LIMIT = '/billing/spending-limit'
const HOOKS = '/webhook-endpoints'

test.each(CALLERS)('a changed spending limit is in it, with the fields that differ: by a %s', async (by) => {
  await house.gateway.database.query(
    'update accounts set monthly_limit_microcents = null, daily_limit_microcents = null, auto_terminate_hours = null',
  )
  const first = await change(by, 'PUT', LIMIT, { monthly_limit_dollars: 900, enforcement: 'block_launch' })
  const fields = { monthly_limit_cents: 90_000, daily_limit_cents: null, enforcement: 'block_launch' }
  const action = 'spending_limit.changed'
  const after = { ...fields, auto_terminate_hours: null }
  expect(only(first, by)).toEqual({ action, subject: null, before: null, after })
  const second = { monthly_limit_dollars: 900, daily_limit_dollars: 12.5, enforcement: 'stop_running' }
  expect(only(await change(by, 'PUT', LIMIT, { ...second, auto_terminate_hours: 8 }), by)).toEqual({
    action,
    subject: null,
    before: { daily_limit_cents: null, enforcement: 'block_launch', auto_terminate_hours: null },
    after: { daily_limit_cents: 1_250, enforcement: 'stop_running', auto_terminate_hours: 8 },
  })
  expect((await change(by, 'PUT', LIMIT, second)).entries).toEqual([])
  expect(await change(by, 'PUT', LIMIT, { monthly_limit_dollars: 0.5 })).toMatchObject({ status: 422, entries: [] })
})

test.each(CALLERS)('made and deleted webhook endpoints are in it, without what is secret: by a %s', async (by) => {
  const url = 'https://hooks.example.com/catch/canary-of-the-path?token=canary-of-the-query'
  const made = await change(by, 'POST', HOOKS, { url, event_types: ['video.completed', 'video.failed'] })
  const fields = { origin: 'https://hooks.example.com', event_types: 'video.completed, video.failed' }
  const subject = made.json['id']
  expect(made.status).toBe(201)
  expect(only(made, by)).toEqual({ action: 'webhook_endpoint.created', subject, before: null, after: fields } as never)
  const deleted = await change(by, 'DELETE', `${HOOKS}/${subject}`)
  expect(deleted.status).toBe(204)
  expect(only(deleted, by)).toEqual({
    action: 'webhook_endpoint.deleted',
    subject,
    before: fields,
    after: null,
  } as never)
  expect(await change(by, 'DELETE', `${HOOKS}/${subject}`)).toMatchObject({ status: 404, entries: [] })
  const rows = await house.gateway.database.query<{ row: string }>('select t::text as row from audit_entries t')
  for (const secret of [String(made.json['secret']), 'canary-of']) expect(JSON.stringify(rows)).not.toContain(secret)
})

test.each(CALLERS)('changed auto-pay is in it: by a %s', async (by) => {
  await house.gateway.database.query('delete from auto_pay')
  const path = '/manage/v1/auto-pay'
  const terms = { enabled: false, threshold_cents: 700, amount_cents: 900, attempts_per_day: 3 }
  const action = 'auto_pay.changed'
  const first = await change(by, 'PUT', path, { enabled: false, threshold_cents: 700, amount_cents: 900 })
  expect(only(first, by)).toEqual({ action, subject: null, before: null, after: terms })
  expect(only(await change(by, 'PUT', path, { enabled: false, amount_cents: 1_000 }), by)).toEqual({
    action,
    subject: null,
    before: { amount_cents: 900 },
    after: { amount_cents: 1_000 },
  })
  // No payment method is saved.
  expect(await change(by, 'PUT', path, { enabled: true })).toMatchObject({ status: 409, entries: [] })
})

test.each(CALLERS)('the ways to pay that somebody opens are in it: by a %s', async (by) => {
  const body = { amount_cents: 1_500, save_payment_method: true }
  const topUp = await change(by, 'POST', '/manage/v1/top-ups', body)
  expect(only(topUp, by)).toEqual({
    action: 'top_up.opened',
    subject: topUp.json['id'],
    before: null,
    after: body,
  } as never)
  const checkout = await change(by, 'POST', '/billing/subscription/checkout', {})
  expect(only(checkout, by)).toEqual({
    action: 'subscription_checkout.opened',
    subject: expect.any(String),
    before: null,
    after: { plan_key: 'small' },
  } as never)
  const portal = await change(by, 'POST', '/billing/subscription/portal', {})
  expect(only(portal, by)).toEqual({ action: 'billing_portal.opened', subject: null, before: null, after: null })
})

test.each(CALLERS)('made and deleted instances are in it: by a %s', async (by) => {
  const wanted = { app: 'server', gpu_type: 'a100', gpu_count: 2, disk_gb: 10, model: 'small' }
  const made = await change(by, 'POST', '/instances', { ...wanted, expected_price_per_hour_cents: 240 })
  expect(made.status).toBe(202)
  const subject = made.json['resource_id']
  const after = { app: 'server', gpu_type: 'a100', gpu_count: 2, price_per_hour_cents: 240 }
  expect(only(made, by)).toEqual({ action: 'instance.created', subject, before: null, after } as never)
  const deleted = await change(by, 'DELETE', `/instances/${subject}`)
  expect(only(deleted, by)).toEqual({ action: 'instance.deleted', subject, before: null, after: null } as never)
  // A second deletion changes nothing, however often it is asked for.
  expect(await change(by, 'DELETE', `/instances/${subject}`)).toMatchObject({ status: 202, entries: [] })
  expect(await change(by, 'DELETE', `/instances/${crypto.randomUUID()}`)).toMatchObject({ status: 404, entries: [] })
})

test('a session that its person ends is among the entries of that person alone', async () => {
  const other = house.browser()
  await other.fill('/account/sign-in', { email: 'ada@example.com', password: 'a long enough phrase' })
  const { id } = await (await other.call('GET', '/manage/v1/session')).json()
  const ended = await change('session', 'DELETE', `/manage/v1/sessions/${id}`)
  expect([ended.status, ended.entries]).toEqual([204, []])
  const rows = await house.gateway.database.query(
    "select organization_id, actor_kind, subject_id, address from audit_entries where action = 'session.ended'",
  )
  expect(rows).toEqual([{ organization_id: null, actor_kind: 'user', subject_id: id, address: owner.address }])
})

test('a change whose entry can not be written is not made', async () => {
  const { database } = house.gateway
  const limits = () => database.query('select monthly_limit_microcents from accounts order by organization_id')
  const [before, entries] = [await limits(), await entriesNow()]
  await database.query(
    `create function refuse_entries() returns trigger language plpgsql as $$ begin raise exception 'full'; end $$;
     create trigger refuse_entries before insert on audit_entries for each row execute function refuse_entries()`,
  )
  expect((await owner.call('PUT', LIMIT, { monthly_limit_dollars: 777 }, HEADERS())).status).toBe(500)
  await database.query('drop trigger refuse_entries on audit_entries; drop function refuse_entries()')
  expect([await limits(), await entriesNow()]).toEqual([before, entries])
})
