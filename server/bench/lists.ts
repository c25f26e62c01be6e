/** How long the lists of the management interface take. README.md explains it. */

import { type AccountsHouse, openAccountsHouse } from '../test/accountsHouse.ts'
import { startTestPostgres, TEST_POSTGRES_VARIABLE } from '../test/postgres.ts'
import type { Visitor } from '../test/visitor.ts'
import { describeMachine } from './machine.ts'
import { atLeastOne, readOptions } from './options.ts'

const USAGE = 'usage: bun server/bench/lists.ts [--keys 10000] [--members 1000] [--organizations 1000] [--asks 200]'
const PRESETS = { keys: '10000', members: '1000', organizations: '1000', asks: '200' }

const { text } = readOptions(USAGE, PRESETS, [])
const keyCount = atLeastOne('keys', text['keys'])
const memberCount = atLeastOne('members', text['members'])
const organizationCount = atLeastOne('organizations', text['organizations'])
const askCount = atLeastOne('asks', text['asks'])

const postgres = await startTestPostgres({ durable: true })
process.env[TEST_POSTGRES_VARIABLE] = postgres.url
const house = await openAccountsHouse()
const { database } = house.gateway
try {
  console.log(describeMachine())
  const owner = await house.owner()
  await seedPeople(house)
  await seedLists(house)
  await measureLists(owner)
} finally {
  await house.gateway.close()
  await postgres.stop()
}

/** One person of many organizations; one organization with many members, keys and entries of every list. */
async function seedPeople({ organizationId }: AccountsHouse): Promise<void> {
  const [person] = await database.query<{ id: string }>("select id from users where email = 'ada@example.com'")
  await run(
    `insert into organizations (id, name, standing, created_at)
     select gen_random_uuid(), 'bench ' || n, 'established', now() from generate_series(1, $1::integer) n`,
    organizationCount,
  )
  await database.query(
    `insert into members (id, organization_id, user_id, role, created_at)
     select gen_random_uuid(), id, $1::uuid, 'owner', now() from organizations where name like 'bench %'`,
    [person?.id ?? ''],
  )
  await run(
    `with people as (
       insert into users (id, name, email, created_at, updated_at)
       select gen_random_uuid(), 'Person ' || n, 'person' || n || '@example.com', now(), now()
       from generate_series(1, $1::integer) n returning id
     ) insert into members (id, organization_id, user_id, role, created_at)
       select gen_random_uuid(), $2::uuid, id, 'member', now() from people`,
    memberCount,
    organizationId,
  )
  await run(
    `insert into api_keys (id, organization_id, hash, scopes, admin, created_at, name, member_id)
     select gen_random_uuid(), $2::uuid, sha256(convert_to('bench ' || n, 'utf8')), 'full_access', false, now(), 'key ' || n,
       (select array_agg(id) from members where organization_id = $2::uuid)[1 + n % (2 * $3::integer)]
     from generate_series(1, $1::integer) n`,
    keyCount,
    organizationId,
    memberCount,
  )
  await database.query('insert into key_uses select id, now() from api_keys on conflict do nothing')
}

/** Runs a statement that inserts so many rows. */
function run(statement: string, count: number, ...more: (string | number)[]) {
  return database.query(statement, [count, ...more])
}

/** Entries of every list of the organization, and of the person's sessions. */
async function seedLists({ organizationId }: AccountsHouse): Promise<void> {
  const [person] = await database.query<{ id: string }>("select id from users where email = 'ada@example.com'")
  await run(
    `insert into invitations (id, organization_id, email, role, created_at, expires_at, withdrawn_at)
     select gen_random_uuid(), $2::uuid, 'guest' || n || '@example.com', 'member', now(), now(), now()
     from generate_series(1, $1::integer) n`,
    memberCount,
    organizationId,
  )
  await run(
    `insert into audit_entries (id, organization_id, actor_kind, action, before, after, created_at)
     select gen_random_uuid(), $2::uuid, 'user', 'key.changed', '{"name":"a"}', '{"name":"b"}', now()
     from generate_series(1, $1::integer) n`,
    keyCount,
    organizationId,
  )
  await run(
    `insert into ledger_entries (id, organization_id, amount_microcents, kind, source, posted_at)
     select gen_random_uuid(), $2::uuid, n, 'credit', 'bench:' || n, now() - n * interval '1 minute'
     from generate_series(1, $1::integer) n`,
    keyCount,
    organizationId,
  )
  await run(
    `insert into notices (organization_id, kind, period, amount_microcents, limit_microcents, enforcement, noticed_at, handled_at)
     select $2::uuid, 'low_balance', now() - n * interval '1 hour', n, n, 'block_launch', now() - n * interval '1 hour', now()
     from generate_series(1, $1::integer) n`,
    memberCount,
    organizationId,
  )
  await run(
    `insert into sessions (token, user_id, expires_at, created_at, updated_at)
     select 'bench ' || n, $2::uuid, now() + interval '1 day', now(), now() from generate_series(1, $1::integer) n`,
    memberCount,
    person?.id ?? '',
  )
  await run(
    `insert into dead_charges (id, charge, reason, failed_at)
     select gen_random_uuid(), '{"costMicrocents":"5"}', 'refused', now() from generate_series(1, $1::integer) n`,
    memberCount,
  )
  await database.query('vacuum analyze')
  console.log(
    `${keyCount} keys, ${memberCount} members, ${organizationCount} organizations of one person; ${keyCount} audit and ledger entries`,
  )
}

/** The pages of each list in their order, by the session of the person, 50 entries and 200 at a time. */
async function measureLists(owner: Visitor): Promise<void> {
  const paths = ['keys', 'members', 'invitations', 'audit', 'sessions', 'ledger', 'notices']
  const cookie = [...owner.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
  for (const path of [...paths, 'operator/organizations', 'operator/dead-charges'])
    for (const limit of [50, 200]) {
      const millis: number[] = []
      let cursor: string | null = null
      for (let asked = 0; asked < askCount; asked += 1) {
        const query: string = cursor === null ? '' : `&cursor=${cursor}`
        const page = await ask(`/manage/v1/${path}?limit=${limit}${query}`, { Cookie: cookie }, millis)
        cursor = page.next_cursor
      }
      tell(`GET /manage/v1/${path}, ${limit} a page`, millis)
    }
  await measurePage(cookie)
}

/** The page of a person with many organizations, which lists them. */
async function measurePage(cookie: string): Promise<void> {
  const millis: number[] = []
  for (let asked = 0; asked < askCount; asked += 1) {
    const startedAt = performance.now()
    const response = await house.gateway.send('/account', {
      headers: { Cookie: cookie },
      address: `203.0.113.${asked % 250}`,
    })
    await response.text()
    millis.push(performance.now() - startedAt)
    if (response.status !== 200) throw new Error(`the page answered ${response.status}`)
  }
  tell('GET /account, with the organizations of the person', millis)
}

interface Page {
  readonly next_cursor: string | null
}

async function ask(path: string, headers: Readonly<Record<string, string>>, millis: number[]): Promise<Page> {
  const startedAt = performance.now()
  const response = await house.gateway.send(path, { headers })
  const body = await response.text()
  millis.push(performance.now() - startedAt)
  if (response.status === 429) {
    // The rate limit of the caller is not what is measured.
    millis.pop()
    await Bun.sleep(1_000)
    return ask(path, headers, millis)
  }
  if (response.status !== 200) throw new Error(body)
  return JSON.parse(body)
}

/** Prints percentiles by nearest rank. */
function tell(name: string, millis: readonly number[]): void {
  const sorted = [...millis].sort((a, b) => a - b)
  const at = (share: number) => (sorted[Math.ceil(share * sorted.length) - 1] ?? Number.NaN).toFixed(1)
  console.log(`${name}: p50 ${at(0.5)} p95 ${at(0.95)} max ${at(1)} ms`)
}
