/** The query that makes a day's partition of charges. Dropping one: `billing/ledger/retention/store.ts`. */

import type { Queryable } from '../../../infra/postgres/database.ts'

/** Calls are refused once a charge has waited for 2 s; a try that gives up sooner is repeated before that. */
const LOCK_WAIT_MS = 200

/**
 * Makes the partition of a day (`YYYY-MM-DD`) unless it is there; `next` is the day after it. The table is made on its own and attached
 * then: that needs no lock which the readers of `charges`, such as a dump, or its writers would keep waiting. One process at a time does
 * so. It rejects where it has waited for another one, or for an operator's statement such as `analyze charges`, for 200 ms: try again then.
 */
export async function makePartition(db: Queryable, { day, next }: { day: string; next: string }): Promise<void> {
  const partition = `charges_${day.replaceAll('-', '')}`
  // One statement, and so one transaction: a process that is killed leaves no table that is not attached.
  await db.query(
    `do $$ begin
       if to_regclass('${partition}') is not null then return; end if;
       perform set_config('lock_timeout', '${LOCK_WAIT_MS}ms', true);
       lock table only charges in share update exclusive mode;
       -- Another process may have made it meanwhile.
       if to_regclass('${partition}') is not null then return; end if;
       create table ${partition} (like charges including all);
       alter table charges attach partition ${partition} for values from ('${day}T00:00:00Z') to ('${next}T00:00:00Z');
     end $$`,
  )
}
