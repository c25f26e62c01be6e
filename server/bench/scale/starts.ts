/** The time from a start to the line with the address, and until everything that the process before it left behind is folded. */

import type { Database } from '../../src/infra/postgres/database.ts'
import { MINUTE_MS } from '../../src/lib/time.ts'
import { median } from '../statistics.ts'
import { callOfCrowd } from './calls.ts'
import type { Scale } from './scale.ts'
import type { Side } from './side.ts'

/** A fold that takes longer is reported as not measured. */
const FOLD_LIMIT_MS = 10 * MINUTE_MS
const POLL_MS = 20
/** For a minute after the start of a PostgreSQL nobody folds a slot of another process. */
const OWNERS_FIRST_MS = MINUTE_MS + 1_000

type Way = 'stop' | 'SIGKILL'

interface Restart {
  /** Until the process had ended. */
  readonly endedMs: number
  readonly readyMs: number
  /** Shares and unfolded spends that were left behind. */
  readonly left: number
  /** From the start on; not a number where it took too long. */
  readonly foldedMs: number
}

export async function measureStarts(scale: Scale): Promise<void> {
  const { table, sides, rounds, crowd } = scale
  await waitForOwners(sides)
  // Earlier restarts may have left something that nobody was to fold yet. It is no part of what is measured.
  for (const side of sides) await restart(side, 'stop')
  for (const way of ['stop', 'SIGKILL'] satisfies Way[]) {
    const restarts: Restart[][] = sides.map(() => [])
    for (let round = 0; round < rounds; round += 1) {
      for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
        await callOfCrowd(side, crowd)
        restarts[sides.indexOf(side)]?.push(await restart(side, way))
      }
    }
    const row = (measure: string, unit: string, of: (restart: Restart) => number) => {
      const [small = Number.NaN, large = Number.NaN] = restarts.map((own) => median(own.map(of)))
      table.add({ measure: `after ${way}: ${measure}`, small, large, unit, compared: 'difference' })
    }
    if (way === 'stop') row('until the process has ended', 'ms', ({ endedMs }) => endedMs)
    row('from start to ready', 'ms', ({ readyMs }) => readyMs)
    row('rows left behind, not folded', '', ({ left }) => left)
    row('from start until they are folded', 'ms', ({ foldedMs }) => foldedMs)
  }
}

async function restart(side: Side, way: Way): Promise<Restart> {
  let endedMs = 0
  if (way === 'stop') endedMs = await side.stop()
  else await side.kill()
  const slots = await leftSlots(side.database)
  const left = await countLeft(side.database, slots)
  const beganAtMs = performance.now()
  const [{ readyMs }, foldedMs] = await Promise.all([side.start(), untilFolded(side.database, slots, beganAtMs)])
  return { endedMs, readyMs, left, foldedMs }
}

/** The slots under which something is left. Nobody serves when they are asked for. */
async function leftSlots(database: Database): Promise<string> {
  const [row] = await database.query<{ slots: string }>(
    `select coalesce(array_agg(slot), '{}')::text as slots
     from (select slot from account_shares union select slot from unfolded_spend) s`,
  )
  return row?.slots ?? '{}'
}

async function countLeft(database: Database, slots: string): Promise<number> {
  const [row] = await database.query<{ rows: bigint }>(
    `select (select count(*) from account_shares where slot = any ($1::text::integer[]))
       + (select count(*) from unfolded_spend where slot = any ($1::text::integer[])) as rows`,
    [slots],
  )
  return Number(row?.rows)
}

/** Resolves to the milliseconds since `beganAtMs` at which nothing was left under the slots. */
async function untilFolded(database: Database, slots: string, beganAtMs: number): Promise<number> {
  while (performance.now() < beganAtMs + FOLD_LIMIT_MS) {
    const [row] = await database.query<{ some: boolean }>(
      `select exists (select from account_shares where slot = any ($1::text::integer[]))
         or exists (select from unfolded_spend where slot = any ($1::text::integer[])) as some`,
      [slots],
    )
    if (row?.some === false) return performance.now() - beganAtMs
    await Bun.sleep(POLL_MS)
  }
  return Number.NaN
}

async function waitForOwners(sides: readonly Side[]): Promise<void> {
  for (const { database } of sides) {
    const [row] = await database.query<{ ms: number }>(
      `select (extract(epoch from clock_timestamp() - pg_postmaster_start_time()) * 1000)::float8 as ms`,
    )
    const waitMs = OWNERS_FIRST_MS - (row?.ms ?? 0)
    if (waitMs <= 0) continue
    console.log(`  waiting ${Math.ceil(waitMs / 1_000)} s: nobody folds another's slot in PostgreSQL's first minute`)
    await Bun.sleep(waitMs)
  }
}
