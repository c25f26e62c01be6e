import type { Queryable } from './database.ts'

/** Connections as the server sees them, in `pg_stat_activity`: whose a lock is, and how a dead one of our own is ended. */

export interface Backend {
  readonly pid: number
  /** To the microsecond, as text; null where the server hides it: the connection is another role's. */
  readonly startedAt: string | null
  readonly applicationName: string
}

/** The connection that holds a lock. */
export interface LockHolder extends Backend {
  /** Its last statement's end, as text; null where the server hides it. A connection with locks sends a statement every second. */
  readonly beatAt: string | null
  /** How long ago that was, by the server's clock. */
  readonly silentMs: number | null
}

const COLUMNS = 'a.pid, a.backend_start::text as "startedAt", a.application_name as "applicationName"'

/** Returns the connection that holds the exclusive advisory lock (`lockClass`, `id`; both int4) of this database; null: none. */
export async function findHolder(db: Queryable, lockClass: number, id: number): Promise<LockHolder | null> {
  const rows = await db.query<LockHolder>(
    `select ${COLUMNS}, a.state_change::text as "beatAt",
       (extract(epoch from clock_timestamp() - a.state_change) * 1000)::float8 as "silentMs"
     from pg_locks l join pg_stat_activity a using (pid)
     where l.locktype = 'advisory' and l.granted and l.mode = 'ExclusiveLock' and l.objsubid = 2
       and l.database = (select oid from pg_database where datname = current_database())
       and l.classid = ($1::bigint & 4294967295)::oid and l.objid = ($2::bigint & 4294967295)::oid`,
    [lockClass, id],
  )
  return rows[0] ?? null
}

/** Returns the connections whose application names are LIKE a pattern, but for the one that asks. */
export async function listBackends(db: Queryable, pattern: string): Promise<Backend[]> {
  return db.query<Backend>(
    `select ${COLUMNS} from pg_stat_activity a where a.application_name like $1 and a.pid <> pg_backend_pid()`,
    [pattern],
  )
}

/**
 * Ends a connection, its transaction and its locks. One statement looks and ends: a connection that has the process id by now, or
 * another name, is left alone. False where it is not there any more.
 */
export async function endBackend(db: Queryable, { pid, startedAt, applicationName }: Backend): Promise<boolean> {
  const rows = await db.query<{ done: boolean }>(
    `select pg_terminate_backend(pid) as done from pg_stat_activity
     where pid = $1::int4 and backend_start = $2::text::timestamptz and application_name = $3`,
    [pid, startedAt, applicationName],
  )
  return rows[0]?.done === true
}

/** Ends all connections whose application names are LIKE a pattern, but for the one that asks. Returns how many they were. */
export async function endBackends(db: Queryable, pattern: string): Promise<number> {
  let ended = 0
  for (const backend of await listBackends(db, pattern)) if (await endBackend(db, backend)) ended += 1
  return ended
}
