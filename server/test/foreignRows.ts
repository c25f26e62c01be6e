/** Rows of another organization: one of each kind that a path of the interface names by an id. */

import type { Database } from '../src/infra/postgres/database.ts'
import type { TestKey } from './customer.ts'

export interface ForeignRows {
  readonly organizationId: string
  /** The person whose organization it is. */
  readonly userId: string
  /** Ids, by the word before them in paths, such as `members` in `/members/{id}`. */
  readonly ids: ReadonlyMap<string, string>
  /** Returns all of these rows as text, in an order of their own. */
  read(): Promise<string>
}

/** The values that the statements below take from: the id of the row, the organization, the person and the key. */
const GIVEN = 'with given (id, org, person, key) as (values ($1::uuid, $2::uuid, $3::uuid, $4::uuid))'

/** Each makes one row. The later ones need the earlier. */
const INSERTS: readonly [word: string, statement: string][] = [
  [
    'members',
    `insert into members (id, organization_id, user_id, role, created_at) select given.id, given.org, given.person, 'owner', now() from given`,
  ],
  [
    'invitations',
    `insert into invitations (id, organization_id, email, role, created_at, expires_at)
     select given.id, given.org, 'guest@example.org', 'member', now(), now() + interval '1 day' from given`,
  ],
  [
    'sessions',
    `insert into sessions (id, token, user_id, expires_at, created_at, updated_at)
     select given.id, 'x', given.person, now() + interval '1 day', now(), now() from given`,
  ],
  [
    'webhook-endpoints',
    `insert into webhook_endpoints (id, organization_id, url, event_types, enabled, secret, created_at)
     select given.id, given.org, 'https://other.example/', '{video.failed}', true, '\\x00', now() from given`,
  ],
  [
    'deliveries',
    `, event as (
       insert into webhook_events (id, organization_id, type, body, created_at, written_by)
       select gen_random_uuid(), given.org, 'video.failed', '{}', now(), pg_current_xact_id() from given returning id
     )
     insert into webhook_deliveries (id, organization_id, endpoint_id, event_id, state, attempts, attempts_before_round,
       is_new, created_at)
     select given.id, given.org, e.id, event.id, 'dead', 5, 0, false, now() from given, event, webhook_endpoints e
     where e.organization_id = given.org`,
  ],
  [
    'payments',
    `insert into payments (id, organization_id, provider, kind, amount_cents, state, created_at, paid_at)
     select given.id, given.org, 'local', 'top_up', 900, 'paid', now(), now() from given`,
  ],
  [
    'deposits',
    `insert into deposits (id, organization_id, chain, asset, amount_cents, address, address_index, key_fingerprint, status,
       created_at, expires_at, watched_until)
     select given.id, given.org, 'polygon', 'usdc', 900, '0x00', 1, 'another', 'expired', now(), now(), now() from given`,
  ],
  [
    'operations',
    `insert into operations (id, organization_id, principal_id, kind, state, resource_id, created_at, updated_at, completed_at)
     select given.id, given.org, given.key, 'instance.create', 'succeeded', gen_random_uuid(), now(), now(), now() from given`,
  ],
  [
    'instances',
    `insert into instances (id, organization_id, principal_id, name, app, gpu_type, gpu_count, disk_gb, price_hash,
       hour_microcents, state, reason, created_at, ended_at, held_second)
     select given.id, given.org, given.key, 'theirs', 'server', 'a100', 1, 0, '\\x00', 1, 'terminated', 'deleted', now(), now(), 0 from given`,
  ],
]

const TABLES = INSERTS.map(([word]) => word.replace('-', '_').replace('deliveries', 'webhook_deliveries'))

/** Makes them in the organization of a key, which is one of them, with a person who owns it. */
export async function makeForeignRows(
  database: Database,
  { id: keyId, organizationId }: TestKey,
): Promise<ForeignRows> {
  const userId = crypto.randomUUID()
  await database.query(
    `insert into users (id, name, email, created_at, updated_at) values ($1, 'O', 'other@example.org', now(), now())`,
    [userId],
  )
  const ids = new Map([['keys', keyId]])
  for (const [word, statement] of INSERTS) {
    const id = crypto.randomUUID()
    const rows = await database.query(`${GIVEN} ${statement} returning 1`, [id, organizationId, userId, keyId])
    if (rows.length !== 1) throw new Error(`no row of ${word} was made`)
    ids.set(word, id)
  }
  const own = [...TABLES.filter((table) => table !== 'sessions'), 'api_keys', 'audit_entries']
  const selects = own.map((table) => `select t::text as row from ${table} t where organization_id = $1::uuid`)
  return {
    organizationId,
    userId,
    ids,
    async read() {
      const rows = await database.query<{ row: string }>(
        `${selects.join(' union all ')} union all select t::text from sessions t where user_id = $2::uuid order by row`,
        [organizationId, userId],
      )
      return rows.map(({ row }) => row).join('\n')
    },
  }
}
