/**
 * Names, addresses and secrets go into everything that an organization has. Once it is deleted, none of them is found in any row of any
 * table, but for those that stay by decision 0083.
 */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type DeletionHouse, type OwnedOrganization, openDeletionHouse } from '../../../test/deletionHouse.ts'
import { systemClock } from '../../infra/clock.ts'
import { eraseOrganization } from './erase.ts'
import { erasureHandler } from './erasureJob.ts'

const CANARY = 'canary'
/** Of the owner's browser, and of the machine that somebody logs in. */
const ADDRESSES = ['198.51.100.231', '203.0.113.77'] as const

let stage: DeletionHouse
let own: OwnedOrganization
let secrets: Record<string, string>

beforeAll(async () => {
  stage = await openDeletionHouse()
  own = await stage.register('Canary Works', 'canary-owner@example.com', ADDRESSES[0])
  const given = await stage.furnish(own)
  const [key] = given.keys
  secrets = { key: key?.key ?? '', session: own.owner.cookies.get('tollgate_session') ?? '' }
  await own.owner.call('PATCH', `/manage/v1/keys/${key?.id}`, { name: 'canary renamed' })
  // An event with deliveries, of which one waits, and a mail that waits.
  const { database } = stage.house.gateway
  const [video] = given.videos
  await database.query(
    `insert into webhook_events (id, organization_id, type, body, created_at, written_by)
     values ($2, $1, 'video.completed', 'canary body', now(), pg_current_xact_id())`,
    [own.id, video ?? ''],
  )
  await database.query(
    `insert into webhook_deliveries (id, organization_id, endpoint_id, event_id, state, attempts, attempts_before_round,
       due_at, is_new, created_at)
     select gen_random_uuid(), organization_id, id, $2::uuid, state, 1, 0, case state when 'pending' then now() + interval '1 hour' end,
       false, now()
     from webhook_endpoints, unnest(array['pending', 'delivered']) state
     where organization_id = $1 and (state = 'pending') = (url like '%/one-%')`,
    [own.id, video ?? ''],
  )
  await database.query(
    `insert into webhook_attempts (delivery_id, number, started_at, latency_ms, status, answer)
     select id, 1, now(), 1, 200, 'canary answer' from webhook_deliveries where organization_id = $1`,
    [own.id],
  )
  await database.query(
    `insert into jobs (kind, organization_id, payload, due_at) values ('mail', $1, '{"to": "canary-mail@example.com"}', now() + interval '1 hour')`,
    [own.id],
  )
  await database.query(
    `insert into notices (organization_id, kind, period, amount_microcents, limit_microcents, enforcement, noticed_at, link)
     values ($1, 'auto_pay_off', now(), 1, 1, 'block_launch', now(), 'https://pay.test/canary')`,
    [own.id],
  )
}, 60_000)
afterAll(() => stage.close())

/** The tables that have one of the texts, with how many rows. */
async function found(...texts: readonly string[]): Promise<Record<string, number>> {
  const { database } = stage.house.gateway
  const tables = await database.query<{ name: string }>(
    `select quote_ident(table_name) as name from information_schema.tables
     where table_schema = 'public' and table_type = 'BASE TABLE'`,
  )
  expect(tables.length).toBeGreaterThan(40)
  const hexes = texts.map((text) => Buffer.from(text).toString('hex'))
  const counts: Record<string, number> = {}
  for (const { name } of tables) {
    const rows = await database.query<{ row: string }>(`select t::text as row from ${name} t`)
    // bytea is shown in hex.
    const has = ({ row }: { row: string }) =>
      [...texts, ...hexes].some((text) => row.toLowerCase().includes(text.toLowerCase()))
    const count = rows.filter(has).length
    if (count > 0) counts[name] = count
  }
  return counts
}

test('before the deletion they are in all tables that have names, addresses or texts of people', async () => {
  const names = Object.keys(await found(CANARY, ...ADDRESSES))
  expect(names).toEqual(
    expect.arrayContaining(
      [
        'api_keys',
        'audit_entries',
        'device_logins',
        'instances',
        'invitations',
        'jobs',
        'notices',
        'organizations',
        'sessions',
      ].concat(['users', 'videos', 'webhook_attempts', 'webhook_endpoints', 'webhook_events']),
    ),
  )
  expect(await stage.rows('idempotent_attempts', own.id)).toHaveLength(6)
})

test('after it they are only in the accounts of the people themselves', async () => {
  expect(await stage.remove(own)).toBe(204)
  await stage.erased(own.id)
  expect(await found(...ADDRESSES)).toEqual({})
  // The owner and the member, who may be members of other organizations.
  expect(await found(CANARY)).toEqual({ users: 2 })
  expect(await found(...Object.values(secrets))).toEqual({})
})

test('no kept answer is left, and their bytes are counted', async () => {
  expect(await stage.rows('idempotent_attempts', own.id)).toEqual([])
  const [{ bytes } = { bytes: -1n }] = await stage.house.gateway.database.query<{ bytes: bigint }>(
    'select coalesce(sum(bytes), 0)::bigint as bytes from kept_answer_bytes where organization_id = $1',
    [own.id],
  )
  expect(bytes).toBe(0n)
})

test('rows that requests under way write afterwards go with the second erasure', async () => {
  const { database } = stage.house.gateway
  const [second] = await database.query<{ id: string; later: boolean }>(
    "select id, due_at > now() + interval '24 hours' as later from jobs where organization_id = $1 and unique_key = 'again'",
    [own.id],
  )
  expect(second?.later).toBe(true)
  await database.query(
    `insert into audit_entries (id, organization_id, actor_kind, action, before, after, address, created_at)
     values (gen_random_uuid(), $1, 'user', 'key.changed', '{"name": "canary late", "scope": "read_only"}', null, '192.0.2.44', now())`,
    [own.id],
  )
  const { handle } = erasureHandler({ database, clock: systemClock, lowBalanceMicrocents: 0n })
  const job = { id: second?.id ?? '', organizationId: own.id, payload: {}, attempts: 1, lease: second?.id ?? '' }
  expect(await handle(job, AbortSignal.timeout(60_000))).toEqual({ kind: 'done' })
  expect(await found(CANARY, '192.0.2.44')).toEqual({ users: 2 })
  const kept = await database.query(
    "select before, after from audit_entries where organization_id = $1 and action = 'key.changed' and actor_id is null",
    [own.id],
  )
  expect(kept).toEqual([{ before: { scope: 'read_only' }, after: null }])
})

test('while another transaction rewrites entries of the log, the erasure fails and is tried again', async () => {
  const { database } = stage.house.gateway
  const dependencies = { database, clock: systemClock, lowBalanceMicrocents: 0n }
  await database.transaction(async (tx) => {
    await tx.query('select 1 from audit_entries where organization_id = $1 for update', [own.id])
    await expect(eraseOrganization(dependencies, own.id, () => {})).rejects.toThrow()
  })
  await eraseOrganization(dependencies, own.id, () => {})
})

test('an organization that is not deleted is not erased', async () => {
  const alive = await stage.register('Alive', 'alive@example.com')
  await stage.furnish(alive)
  const tables = [
    'api_keys',
    'audit_entries',
    'invitations',
    'videos',
    'idempotent_attempts',
    'webhook_endpoints',
  ] as const
  const counted = () => Promise.all(tables.map(async (table) => (await stage.rows(table, alive.id)).length))
  const before = await counted()
  const { database } = stage.house.gateway
  const job = { id: alive.id, organizationId: alive.id, payload: {}, attempts: 1, lease: alive.id }
  await erasureHandler({ database, clock: systemClock, lowBalanceMicrocents: 0n }).handle(
    job,
    AbortSignal.timeout(60_000),
  )
  expect(await counted()).toEqual(before)
  expect(await stage.rows('audit_entries', alive.id, 'address is not null')).not.toEqual([])
})
