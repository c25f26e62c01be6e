import type { Role } from '../../http/principal.ts'
import { arrayLiteral, type Queryable, type Transaction } from '../../infra/postgres/database.ts'
import { LOWEST_UUID } from '../../lib/ids.ts'
import type { Actor, AuditEntry, AuditedFields, AuditedPerson, OwnAuditEntry } from './entry.ts'

/** Every statement on `audit_entries` and `audit_budgets`. It reads `members` and `api_keys`, to know whose keys are whose. */

/** Stands in entries in place of the names and addresses of a person who was erased. */
const ERASED = 'erased'

interface EntryRow {
  readonly id: string
  readonly organization_id: string | null
  readonly actor_kind: Actor['kind']
  readonly actor_id: string | null
  readonly action: string
  readonly subject_id: string | null
  readonly before: AuditedFields | null
  readonly after: AuditedFields | null
  readonly address: string | null
  readonly created_at: Date
}

/** Writes an entry, once for its id. */
export async function insertAuditEntry(tx: Transaction, entry: AuditEntry): Promise<void> {
  const { actor, before, after } = entry
  await tx.query(
    `insert into audit_entries
       (id, organization_id, actor_kind, actor_id, action, subject_id, before, after, address, created_at)
     values ($1, $2, $3, $4, $5, $6, $7::text::jsonb, $8::text::jsonb, $9, $10)
     on conflict (id) do nothing`,
    [
      entry.id,
      entry.organizationId,
      actor.kind,
      actor.id,
      entry.action,
      entry.subjectId,
      before && JSON.stringify(before),
      after && JSON.stringify(after),
      actor.address,
      new Date(entry.createdAtMs),
    ],
  )
}

/**
 * Keeps a key as it is until the transaction ends, so that its revocation waits for that. Returns whether it was revoked or has expired
 * at an instant, and the rights that it has now: a member's key has an admin's only while the member has them. Undefined: another
 * transaction is changing it. It waits for none, since that one may wait for what this one has locked.
 */
export async function holdKey(
  tx: Transaction,
  id: string | null,
  atMs: number,
): Promise<{ readonly hasEnded: boolean; readonly admin: boolean } | undefined> {
  const rows = await tx.query<{ has_ended: boolean; admin: boolean }>(
    `select k.revoked_at is not null or coalesce(k.expires_at <= $2::timestamptz, false) as has_ended,
       k.admin and (k.member_id is null or exists (
         select 1 from members m where m.id = k.member_id and m.removed_at is null and m.role in ('owner', 'admin')
       )) as admin
     from api_keys k where k.id = $1::uuid for share of k skip locked`,
    [id, new Date(atMs)],
  )
  return rows[0] && { hasEnded: rows[0].has_ended, admin: rows[0].admin }
}

/** Returns the role that a member has now; undefined: the person was removed. */
export async function selectRoleNow(tx: Transaction, memberId: string): Promise<Role | undefined> {
  const rows = await tx.query<{ role: Role }>('select role from members where id = $1::uuid and removed_at is null', [
    memberId,
  ])
  return rows[0]?.role
}

/** A minute beyond the longest that a budget can be spent for: clocks of processes differ by less. */
const NEVER_BEYOND = "interval '1 minute'"

/**
 * Adds a change to the budget of an organization. False, and nothing is written: the budget is used up. `wholeMs`: how long a whole budget
 * takes to come back; `changeMs`: how long a change does. Changes of the organization at the same time wait for the transaction; a
 * refused one only reads. A budget that is spent beyond its whole was spent by a clock that was wrong: it comes back as if it were used up now.
 */
export async function addToBudget(
  tx: Transaction,
  organizationId: string,
  nowMs: number,
  { wholeMs, changeMs }: { readonly wholeMs: number; readonly changeMs: number },
): Promise<boolean> {
  const isUsedUp = `b.spent_until > $3::timestamptz - $4::integer * interval '1 ms'
    and b.spent_until <= $3::timestamptz + ${NEVER_BEYOND}`
  const added = await tx.query(
    `insert into audit_budgets as b (organization_id, spent_until)
     select $1::uuid, $2::timestamptz + $4::integer * interval '1 ms'
     where not exists (select 1 from audit_budgets b where organization_id = $1::uuid and ${isUsedUp})
     on conflict (organization_id) do update
       set spent_until = least(greatest(b.spent_until, $2::timestamptz) + $4::integer * interval '1 ms', $3::timestamptz)
       where not (${isUsedUp})
     returning 1`,
    [organizationId, new Date(nowMs), new Date(nowMs + wholeMs), changeMs],
  )
  return added.length > 0
}

/** When an organization's budget is whole again, in milliseconds since the epoch; null: it has been for long. */
export async function readSpentUntil(database: Queryable, organizationId: string): Promise<number | null> {
  const rows = await database.query<{ spent_until: Date }>(
    'select spent_until from audit_budgets where organization_id = $1::uuid',
    [organizationId],
  )
  return rows[0]?.spent_until.getTime() ?? null
}

/** Removes at most `atMost` budgets that were whole again at `nowMs`; returns how many. */
export async function deleteWholeBudgets(database: Queryable, nowMs: number, atMost: number): Promise<number> {
  const rows = await database.query(
    `delete from audit_budgets where organization_id in (
       select organization_id from audit_budgets where spent_until <= $1::timestamptz limit $2::integer
     ) and spent_until <= $1::timestamptz returning 1`,
    [new Date(nowMs), atMost],
  )
  return rows.length
}

/** The entries of an organization before an id, the newest first. */
export async function selectChanges(
  database: Queryable,
  organizationId: string,
  beforeId: string | null,
  atMost: number,
): Promise<AuditEntry[]> {
  const rows = await database.query<EntryRow>(
    `select id, organization_id, actor_kind, actor_id, action, subject_id, before, after, address, created_at
     from audit_entries where organization_id = $1 and ($2::uuid is null or id < $2::uuid)
     order by id desc limit $3::integer`,
    [organizationId, beforeId, atMost],
  )
  return rows.map(fromRow)
}

function fromRow(row: EntryRow): AuditEntry {
  return {
    id: row.id,
    organizationId: row.organization_id,
    actor: { kind: row.actor_kind, id: row.actor_id, address: row.address },
    action: row.action,
    subjectId: row.subject_id,
    before: row.before,
    after: row.after,
    createdAtMs: row.created_at.getTime(),
  }
}

/**
 * The entries of a person ($1) with these addresses ($2), at most $4, after the id $3: those that the person or a key of theirs
 * made, those about the person's account, memberships and keys, and those of `withAddress` that have one of the addresses. Each branch
 * ends at its index.
 */
const ofPerson = (withAddress: string) => `with own as (
    select $1::uuid as id
    union select id from members where user_id = $1::uuid
    union select k.id from api_keys k join members m on m.id = k.member_id where m.user_id = $1::uuid
  ), page as materialized (
    select id from (
      select f.id from own cross join lateral (
        (select a.id from audit_entries a where a.actor_id = own.id and a.id > $3::uuid order by a.id limit $4::integer)
        union all
        (select a.id from audit_entries a where a.subject_id = own.id and a.id > $3::uuid order by a.id limit $4::integer)
      ) f
      union
      (select a.id from audit_entries a where a.before ->> 'email' = any($2::text::text[]) and a.id > $3::uuid
         and ${withAddress} order by a.id limit $4::integer)
      union
      (select a.id from audit_entries a where a.after ->> 'email' = any($2::text::text[]) and a.id > $3::uuid
         and ${withAddress} order by a.id limit $4::integer)
    ) found order by id limit $4::integer
  )`

const parametersOf = ({ userId, addresses }: AuditedPerson, afterId: string | null, atMost: number) =>
  [userId, arrayLiteral(addresses), afterId ?? LOWEST_UUID, atMost] as const

/** Others may have had an address before the person; their changes of address are not the person's to read. */
const INVITATIONS = "a.action like 'invitation.%'"

/** Returns at most `atMost` entries of a person, in the order of their ids, after `afterId`. */
export async function selectChangesOfPerson(
  database: Queryable,
  person: AuditedPerson,
  afterId: string | null,
  atMost: number,
): Promise<OwnAuditEntry[]> {
  const rows = await database.query<EntryRow & { is_own: boolean }>(
    `${ofPerson(INVITATIONS)} select a.id, a.organization_id, a.actor_kind, a.actor_id, a.action, a.subject_id, a.before, a.after,
       a.address, a.created_at, coalesce(a.actor_id in (select id from own), false) as is_own
     from page join audit_entries a using (id) order by a.id`,
    parametersOf(person, afterId, atMost),
  )
  return rows.map((row) => ({ ...fromRow(row), isOwn: row.is_own }))
}

/** Returns at most `atMost` addresses that a person had before and nobody else has an account with now, the newest. */
export async function selectFormerAddresses(database: Queryable, userId: string, atMost: number): Promise<string[]> {
  const rows = await database.query<{ email: string }>(
    `select email from (
       select before ->> 'email' as email, max(id::text) as id from audit_entries
       where subject_id = $1 and action = 'address.changed' group by 1
     ) former
     where email is not null and not exists (select 1 from users u where u.email = former.email and u.id <> $1)
     order by id desc limit $2::integer`,
    [userId, atMost],
  )
  return rows.map(({ email }) => email)
}

/**
 * An expression of the fields of an entry without what names the person: names and addresses in entries about the person's own
 * things, and the person's mail addresses in any entry.
 */
const withoutNames = (fields: string) => `case when ${fields} is null then null else (
    select coalesce(jsonb_object_agg(key, case
      when jsonb_typeof(value) = 'string' and (
        key in ('name', 'email', 'machine_address') and (
          a.action ~ '^(passkey|device_login|address)[.]' and a.actor_id = $1::uuid
          or a.action ~ '^key[.]' and a.subject_id in (select id from own))
        or key = 'email' and value #>> '{}' = any($2::text::text[])
      ) then to_jsonb('${ERASED}'::text) else value end), '{}'::jsonb)
    from jsonb_each(${fields})) end`

/** Takes what names a person out of at most `atMost` entries of the person, after the id `afterId`; returns the last id, and how many. */
export async function redactPage(
  tx: Transaction,
  person: AuditedPerson,
  afterId: string | null,
  atMost: number,
): Promise<{ readonly lastId: string | null; readonly count: number }> {
  const rows = await tx.query<{ last_id: string | null; count: bigint }>(
    `${ofPerson('true')}, nameless as (
       select a.id, ${withoutNames('a.before')} as before, ${withoutNames('a.after')} as after,
         case when a.actor_id in (select id from own) then null else a.address end as address
       from page join audit_entries a using (id)
     ), redacted as (
       update audit_entries a set before = n.before, after = n.after, address = n.address from nameless n
       where a.id = n.id and (a.before, a.after, a.address) is distinct from (n.before, n.after, n.address)
     )
     select (select id from page order by id desc limit 1) as last_id, (select count(*) from page) as count`,
    parametersOf(person, afterId, atMost),
  )
  const [row] = rows
  return { lastId: row?.last_id ?? null, count: Number(row?.count ?? 0) }
}

/** An expression of a list of addresses, as the log has it, with a word in place of each of these ($1). */
const withoutAddresses = (fields: string) => `case when ${fields} ->> 'notify_addresses' is null then ${fields} else
    jsonb_set(${fields}, '{notify_addresses}', to_jsonb((
      select string_agg(case when lower(address) = any($1::text::text[]) then '${ERASED}' else address end, ', ' order by n)
      from unnest(string_to_array(${fields} ->> 'notify_addresses', ', ')) with ordinality as l (address, n)))) end`

/** Takes these addresses out of the entries that say whom an organization tells of its limits; returns how many entries had one. */
export async function redactNotifyAddresses(tx: Transaction, addresses: readonly string[]): Promise<number> {
  const rows = await tx.query(
    `update audit_entries set before = ${withoutAddresses('before')}, after = ${withoutAddresses('after')}
     where action = 'organization.changed' and exists (
       select 1 from unnest(string_to_array(lower(concat_ws(', ', before ->> 'notify_addresses', after ->> 'notify_addresses')), ', ')) a
       where a = any($1::text::text[])) returning 1`,
    [arrayLiteral(addresses)],
  )
  return rows.length
}

/** Removes at most `atMost` entries from before `beforeMs`; returns how many. */
export async function deleteAuditEntries(database: Queryable, beforeMs: number, atMost: number): Promise<number> {
  const rows = await database.query(
    `delete from audit_entries where id in (
       select id from audit_entries where created_at < $1 limit $2::integer
     ) returning id`,
    [new Date(beforeMs), atMost],
  )
  return rows.length
}

/**
 * Erases the addresses, and the fields that are not in `kept`, of at most `atMost` entries of an organization, the newest before the id
 * `beforeId`. Returns the id of the last one that was looked at; null where there are no more. It fails where another transaction
 * rewrites one of them, as the erasure of a person does, which rewrites many: neither waits for the other while it is waited for.
 */
export async function eraseChanges(
  database: Queryable,
  organizationId: string,
  beforeId: string | null,
  kept: readonly string[],
  atMost: number,
): Promise<string | null> {
  const left = (fields: string) =>
    `case when ${fields} is not null then
       coalesce((select jsonb_object_agg(key, value) from jsonb_each(${fields}) where key = any ($3::text::text[])), '{}') end`
  const rows = await database.query<{ last: string | null; count: bigint }>(
    `with looked as materialized (
       select id from audit_entries where organization_id = $1::uuid and ($2::uuid is null or id < $2::uuid)
       order by id desc limit $4::integer for no key update nowait
     ), erased as (
       update audit_entries a set address = null, before = ${left('a.before')}, after = ${left('a.after')}
       from looked where a.id = looked.id and (a.address is not null or exists (
         select 1 from jsonb_object_keys(coalesce(a.before, '{}') || coalesce(a.after, '{}')) field
         where field <> all ($3::text::text[])
       ))
     )
     select (select id from looked order by id limit 1) as last, (select count(*) from looked) as count`,
    [organizationId, beforeId, arrayLiteral(kept), atMost],
  )
  const [row] = rows
  return row === undefined || Number(row.count) < atMost ? null : row.last
}
