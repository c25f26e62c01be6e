import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../lib/time.ts'
import { MINUTE_MS, sleep } from '../../lib/time.ts'
import type { Database, Transaction } from './database.ts'
import { sqlStateOf } from './faults.ts'
import { LOCK_CLASS } from './locks.ts'

/** Another process may be rewriting a large table; past this something is stuck and an operator should look. */
const LOCK_TIMEOUT_MS = 10 * MINUTE_MS
const LOCK_POLL_MS = 100
/** The SQLSTATE of a statement that took longer than its connection allows, or that an operator ended. */
const OUT_OF_TIME = '57014'
const PATIENTLY = 'Run "tollgate migrate", which allows each statement 12 hours, and then start again.'

/** A migration can't be applied, or the database is not one of this program's. The message says what to do. */
class MigrationError extends Error {
  override readonly name = 'MigrationError'
}

/** Such as `20261122-0900-jobs.sql`. The first group is the time, which orders the files. */
const NAME = /^(20\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])-(?:[01]\d|2[0-3])[0-5]\d)-[a-z0-9]+(?:-[a-z0-9]+)*\.sql$/

export interface Migrated {
  /** The names of the files that were applied now, in order. */
  readonly applied: readonly string[]
}

interface MigrationFile {
  readonly name: string
  readonly text: string
  readonly sha256: string
}

/**
 * Brings the schema up to date. Applies the files of `folder` that are not recorded yet, in the order of their names, each in
 * a transaction of its own together with its record. A file that was merged late is applied after later ones. There is no way
 * back. Several processes may call this at once. A long migration needs a `database` with a long statement timeout (see
 * `openClient`).
 *
 * @throws MigrationError when a name or a file is wrong, a file fails, a recorded file has changed, the database is newer
 * than this program or older than the baseline, or the server is too old.
 */
export async function migrate(database: Database, folder: string, clock: Clock): Promise<Migrated> {
  const files = await readMigrations(folder)
  await inLockedTransaction(database, clock, async (tx) => {
    await refuseOldServer(tx)
    await refuseBeforeBaseline(tx)
    await tx.query(`create table if not exists schema_migrations (
      name text primary key, sha256 text not null, applied_at timestamptz not null)`)
  })
  const applied: string[] = []
  for (;;) {
    const name = await inLockedTransaction(database, clock, (tx) => applyNext(tx, files, clock))
    if (name === null) return { applied }
    applied.push(name)
  }
}

/** The oldest server that the statements are written and tested for. */
const OLDEST_SERVER = 15

async function refuseOldServer(tx: Transaction): Promise<void> {
  const [row] = await tx.query<{ version: string; number: string }>(
    "select current_setting('server_version') as version, current_setting('server_version_num') as number",
  )
  if (row === undefined || Number(row.number) >= OLDEST_SERVER * 10_000) return
  throw new MigrationError(
    `This server is PostgreSQL ${row.version}, and Tollgate needs ${OLDEST_SERVER} or newer. Upgrade it, or name another one in DATABASE_URL.`,
  )
}

/** Refuses a database of the time before the baseline: there, files had numbers, and so had their records. */
async function refuseBeforeBaseline(tx: Transaction): Promise<void> {
  const numbered = await tx.query(
    `select 1 from pg_attribute
     where attrelid = to_regclass('schema_migrations') and attname = 'number' and not attisdropped`,
  )
  if (numbered.length === 0) return
  throw new MigrationError(
    'This database was made by a version of Tollgate from before its first release and cannot be upgraded: start with ' +
      'a new data directory (--data-dir), or name an empty database in DATABASE_URL if you use your own PostgreSQL.',
  )
}

/** Applies the first file that is not recorded and returns its name; null when there is none. */
async function applyNext(tx: Transaction, files: readonly MigrationFile[], clock: Clock): Promise<string | null> {
  const records = await tx.query<MigrationRecord>('select name, sha256 from schema_migrations order by name')
  for (const record of records) checkRecord(record, files)
  const recorded = new Set(records.map(({ name }) => name))
  const next = files.find(({ name }) => !recorded.has(name))
  if (next === undefined) return null
  // The text has no parameters, so it may hold several statements. They share this transaction.
  await tx.query(next.text).catch((error: unknown) => {
    throw new MigrationError(describeFailure(next, error), { cause: error })
  })
  await tx.query('insert into schema_migrations (name, sha256, applied_at) values ($1, $2, $3)', [
    next.name,
    next.sha256,
    new Date(clock.now()),
  ])
  return next.name
}

interface MigrationRecord {
  readonly name: string
  readonly sha256: string
}

function checkRecord(record: MigrationRecord, files: readonly MigrationFile[]): void {
  const file = files.find(({ name }) => name === record.name)
  if (file === undefined) {
    throw new MigrationError(
      `The database has migration ${record.name}, which this program (up to ${files.at(-1)?.name ?? 'none'}) does not ` +
        'know: it is newer than this program. Start the version of Tollgate that made it, or a later one.',
    )
  }
  if (file.sha256 !== record.sha256) {
    throw new MigrationError(
      `Migration ${file.name} has changed since it was applied to this database. Migrations are never edited: restore ` +
        'the file as it was and put the change into a new one.',
    )
  }
}

/** Reads and checks the folder. Returns its files in the order of their names, which is that of time. */
async function readMigrations(folder: string): Promise<MigrationFile[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort()
  const files: MigrationFile[] = []
  for (const name of names) {
    const time = NAME.exec(name)?.[1]
    if (time === undefined) {
      throw new MigrationError(
        `${join(folder, name)}: a migration is named by date, time and subject, such as 20261122-0900-jobs.sql. Rename it.`,
      )
    }
    const before = files.at(-1)
    if (before?.name.startsWith(time) === true) {
      throw new MigrationError(
        `${join(folder, name)}: ${before.name} has the same time. Give the newer one a later time.`,
      )
    }
    // Line ends as in the repository, whatever a checkout made of them.
    const text = (await readFile(join(folder, name), 'utf8')).replaceAll('\r\n', '\n')
    const control = /^\s*(begin|start transaction|commit|rollback|abort)\s*;/im.exec(text)
    if (control !== null) {
      throw new MigrationError(
        `${name}:${lineAt(text, control.index + control[0].length)}: ${control[1]} is not for migrations; ` +
          'each file already runs in a transaction of its own. Remove it.',
      )
    }
    files.push({ name, text, sha256: createHash('sha256').update(text).digest('hex') })
  }
  return files
}

async function inLockedTransaction<T>(database: Database, clock: Clock, work: (tx: Transaction) => Promise<T>) {
  const giveUpAtMs = clock.monotonicMs() + LOCK_TIMEOUT_MS
  for (;;) {
    const done = await database.transaction(async (tx) => {
      const [lock] = await tx.query<{ got: boolean }>('select pg_try_advisory_xact_lock($1::int4, 0) as got', [
        LOCK_CLASS.migrations,
      ])
      return lock?.got === true ? { value: await work(tx) } : null
    })
    if (done !== null) return done.value
    if (clock.monotonicMs() > giveUpAtMs) {
      throw new MigrationError('Another process has been migrating this database for 10 minutes; see what it is doing.')
    }
    await sleep(clock, LOCK_POLL_MS)
  }
}

function describeFailure(file: MigrationFile, error: unknown): string {
  const given = error instanceof Bun.SQL.PostgresError ? error : null
  const line = given?.position === undefined ? '' : `:${lineAt(file.text, Number(given.position) - 1)}`
  const more = [given?.detail, given?.hint].filter((part) => part !== undefined)
  const message = error instanceof Error ? error.message : String(error)
  const said = `Migration ${file.name}${line} failed and was rolled back: ${[message, ...more].join(' ')}`
  return sqlStateOf(error) === OUT_OF_TIME ? `${said}. ${PATIENTLY}` : said
}

/** The line, from 1, of a character of a text (PostgreSQL counts characters, not UTF-16 units). */
function lineAt(text: string, characters: number): number {
  return Array.from(text).slice(0, characters).join('').split('\n').length
}
