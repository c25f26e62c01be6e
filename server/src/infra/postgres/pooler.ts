import { randomUUID } from 'node:crypto'
import type { Timers } from '../../lib/time.ts'
import { SECOND_MS } from '../../lib/time.ts'
import { CONNECT_TIMEOUT_SECONDS, connectionSettings, runStatement } from './client.ts'
import { sqlStateOf } from './faults.ts'

const SETTINGS = connectionSettings('tollgate start', 5 * SECOND_MS)
const LATER_READS = 3
/** Far more than the few statements take: the network swallows what is sent, or the server hangs. */
const ANSWER_TIMEOUT_MS = 10 * SECOND_MS

const ADVICE =
  'Tollgate needs connections that keep their state: give DATABASE_URL the address of PostgreSQL itself, ' +
  'or of a pooler in session mode.'

/**
 * Refuses a URL that leads to PgBouncer (or the like) in transaction or statement mode: advisory locks would be
 * taken on one connection and looked for on another, and LISTEN would hear nothing. It tells a pooler by behaviour,
 * not by name: a setting made on one connection must be there afterwards, and must not be there on another.
 *
 * @throws with one sentence for the operator; connection failures as they are.
 */
export async function refuseTransactionPooler(url: string, clock: Timers): Promise<void> {
  const open = () =>
    new Bun.SQL({
      url,
      adapter: 'postgres',
      max: 1,
      // Prepared statements fail in confusing ways there, before the question is answered.
      prepare: false,
      connectionTimeout: CONNECT_TIMEOUT_SECONDS,
      connection: SETTINGS,
    })
  const one = open()
  const other = open()
  const close = () => Promise.all([one.close({ timeout: 0 }), other.close({ timeout: 0 })])
  const cancel = clock.after(ANSWER_TIMEOUT_MS, () => void close().catch(() => {}))
  try {
    if (!(await keepsState(one, other))) {
      throw new Error(`DATABASE_URL leads to a connection pooler in transaction mode. ${ADVICE}`)
    }
  } catch (error) {
    if (sqlStateOf(error) === '08P01' && /startup parameter/i.test(String(error))) {
      throw new Error(
        `DATABASE_URL leads to a connection pooler that refuses settings (${(error as Error).message}). ${ADVICE} ` +
          `A pooler must let these pass (PgBouncer: ignore_startup_parameters): ${Object.keys(SETTINGS).join(', ')}.`,
      )
    }
    throw error
  } finally {
    cancel()
    await close()
  }
}

async function keepsState(one: Bun.SQL, other: Bun.SQL): Promise<boolean> {
  const mark = randomUUID()
  const marked = async (sql: Bun.SQL) => {
    const rows = await runStatement<{ mark: string | null }>(
      sql,
      "select current_setting('tollgate.mark', true) as mark",
    )
    return rows[0]?.mark === mark
  }
  await runStatement(one, `set tollgate.mark = '${mark}'`)
  // In transaction mode the connection just used is, as a rule, the next one handed out: to the other client.
  if (await marked(other)) return false
  // While the other client sits in a transaction, the first one can't be given the same connection twice by luck.
  return await other.begin(async (held) => {
    if (await marked(held)) return false
    for (let read = 0; read < LATER_READS; read += 1) if (!(await marked(one))) return false
    return true
  })
}
