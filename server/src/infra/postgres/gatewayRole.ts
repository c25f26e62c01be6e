import { createHmac } from 'node:crypto'
import type { Timers } from '../../lib/time.ts'
import { openClient } from './client.ts'
import { CLUSTER_DATABASE, GATEWAY_ROLE, SUPERUSER_ROLE } from './cluster.ts'
import type { Queryable } from './database.ts'
import { LOCK_CLASS } from './locks.ts'

/**
 * The role that gateways and commands use in the embedded database. It may do everything within the database, which
 * migrations and the daily partitions of charges need, and nothing outside of it: no files, no programs, no other roles.
 */

/** Returns the role's password, which follows from the superuser's; that one can't be computed from it. */
export function gatewayPassword(superuserPassword: string): string {
  return createHmac('sha256', superuserPassword).update(GATEWAY_ROLE).digest('base64url')
}

/**
 * Makes the role unless it is there, and gives it the database with all tables in it. Several processes may do so at once.
 *
 * @throws what the server answers; a connection failure when it is on its way up or down.
 */
export async function makeGatewayRole(superuserUrl: string, superuserPassword: string, clock: Timers): Promise<void> {
  const database = openClient(superuserUrl, { maxConnections: 1, clock, applicationName: 'tollgate role' })
  try {
    if (await isThere(database)) return
    await database.transaction(async (tx) => {
      await tx.query('select pg_advisory_xact_lock($1::int4, 0)', [LOCK_CLASS.gatewayRole])
      if (await isThere(tx)) return
      // Role names and passwords can't be parameters. The password has letters, digits, - and _ only.
      await tx.query(`create role ${GATEWAY_ROLE} login password '${gatewayPassword(superuserPassword)}'`)
      await tx.query(`alter database ${CLUSTER_DATABASE} owner to ${GATEWAY_ROLE}`)
      await tx.query(HAND_OVER)
    })
  } finally {
    await database.close()
  }
}

async function isThere(database: Queryable): Promise<boolean> {
  return (await database.query('select 1 from pg_roles where rolname = $1', [GATEWAY_ROLE])).length > 0
}

/** Tables of a database from before there was the role; their indexes and sequences follow them. A new one has none. */
const HAND_OVER = `
  do $$
  declare held regclass;
  begin
    for held in
      select c.oid from pg_class c join pg_roles r on r.oid = c.relowner
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and r.rolname = '${SUPERUSER_ROLE}'
    loop
      execute format('alter table %s owner to ${GATEWAY_ROLE}', held);
    end loop;
  end $$`
