import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../kernel/time.ts'
import { MINUTE_MS, sleep } from '../../kernel/time.ts'
import type { Database, Transaction } from './database.ts'
import { LOCK_CLASS } from './locks.ts'

/** Another process may be rewriting a large table; past this something is stuck and an operator should look. */
const LOCK_TIMEOUT_MS = 10 * MINUTE_MS
const LOCK_POLL_MS = 100

/** A migration can't be applied, or the database is not one of this program's. The message says what to do. */
class MigrationError extends Error {
  override readonly name = 'MigrationError'
}

export interface Migrated {
  /** File names that were applied now, in order. */
  readonly applied: readonly string[]
  /** The number of the newest migration, 0 for none. */
  readonly version: number
}

interface MigrationFile {
  readonly number: number
  readonly name: string
  readonly text: string
  readonly sha256: string
}

/**
 * Brings the schema up to date: applies the files `NNNN-name.sql` of `folder` that are not recorded yet, forward only,
 * each in a transaction of its own together with its record. Several processes may do so at once. A long migration
 * needs a `database` with a long statement timeout (see `openClient`).
 *
 * @throws MigrationError when a file fails, a recorded file has changed, or the database is newer than this program.
 */
export async function migrate(database: Database, folder: string, clock: Clock): Promise<Migrated> {
  const files = await readMigrations(folder)
  await inLockedTransaction(database, clock, async (tx) => {
    await tx.query(`create table if not exists schema_migrations (
      number integer primary key, name text not null, sha256 text not null, applied_at timestamptz not null)`)
  })
  const applied: string[] = []
  for (;;) {
    const name = await inLockedTransaction(database, clock, (tx) => applyNext(tx, files, clock))
    if (name === null) return { applied, version: files.length }
    applied.push(name)
  }
}

/** Applies the first file that is not recorded; null when there is none. */
async function applyNext(tx: Transaction, files: readonly MigrationFile[], clock: Clock): Promise<string | null> {
  const recorded = await tx.query<{ number: number; name: string; sha256: string }>(
    'select number, name, sha256 from schema_migrations order by number',
  )
  for (const record of recorded) checkRecord(record, files)
  const next = files[recorded.length]
  if (next === undefined) return null
  // The text has no parameters, so it may hold several statements; they share this transaction.
  await tx.query(next.text).catch((error: unknown) => {
    throw new MigrationError(describeFailure(next, error), { cause: error })
  })
  await tx.query('insert into schema_migrations (number, name, sha256, applied_at) values ($1, $2, $3, $4)', [
    next.number,
    next.name,
    next.sha256,
    new Date(clock.now()),
  ])
  return next.name
}

function checkRecord(record: { number: number; name: string; sha256: string }, files: readonly MigrationFile[]): void {
  const file = files[record.number - 1]
  if (file === undefined) {
    throw new MigrationError(
      `The database has migration ${record.name}, which this program (up to ${files.at(-1)?.name ?? 'none'}) does not ` +
        'know: it is newer than this program. Start the version of Tollgate that made it, or a later one.',
    )
  }
  if (file.sha256 !== record.sha256) {
    throw new MigrationError(
      `Migration ${file.name} has changed since it was applied to this database (as ${record.name}). Migrations are ` +
        'never edited: restore the file as it was and put the change into a new one.',
    )
  }
}

/** Reads and checks the folder: names `NNNN-name.sql`, numbered from 1 without a gap. */
async function readMigrations(folder: string): Promise<MigrationFile[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort()
  const files: MigrationFile[] = []
  for (const name of names) {
    const number = Number(/^(\d{4})-[a-z0-9-]+\.sql$/.exec(name)?.[1])
    if (number !== files.length + 1) {
      const wanted = String(files.length + 1).padStart(4, '0')
      throw new MigrationError(
        `${join(folder, name)}: expected ${wanted}-name.sql here; migrations count up without gaps.`,
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
    files.push({ number, name, text, sha256: createHash('sha256').update(text).digest('hex') })
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
  return `Migration ${file.name}${line} failed and was rolled back: ${[message, ...more].join(' ')}`
}

/** The line, from 1, of a character of a text (PostgreSQL counts characters, not UTF-16 units). */
function lineAt(text: string, characters: number): number {
  return Array.from(text).slice(0, characters).join('').split('\n').length
}
