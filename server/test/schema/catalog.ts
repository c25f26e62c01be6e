import type { Database } from '../../src/infra/postgres/database.ts'

/**
 * Lists the schema of a database, a line for each column, constraint, index, function, trigger and option of a table, sorted. The names
 * of indexes are left out, and so are partitions: both are made by rules.
 */
export async function readSchema(database: Database): Promise<string[]> {
  const parts = await Promise.all(QUERIES.map((query) => database.query<{ line: string }>(query)))
  return parts
    .flat()
    .map(({ line }) => line)
    .sort()
}

/** The tables that are no partition. */
const TABLES = `select oid, relname, relkind, reloptions from pg_class
  where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v') and not relispartition`

const QUERIES = [
  `select concat(t.relname, '.', a.attname, ' ', format_type(a.atttypid, a.atttypmod), case when a.attnotnull then ' not null' end,
       ' default ' || pg_get_expr(d.adbin, d.adrelid), ' gen ' || nullif(a.attgenerated::text, '')) as line
     from (${TABLES}) t join pg_attribute a on a.attrelid = t.oid
     left join pg_attrdef d on d.adrelid = t.oid and d.adnum = a.attnum
     where a.attnum > 0 and not a.attisdropped`,
  `select concat(t.relname, ' :: ', pg_get_constraintdef(c.oid)) as line
     from (${TABLES}) t join pg_constraint c on c.conrelid = t.oid where c.contype <> 'n'`,
  `select concat(t.relname, ' ## ', regexp_replace(pg_get_indexdef(i.indexrelid), 'INDEX \\S+ ON', 'INDEX ON')) as line
     from (${TABLES}) t join pg_index i on i.indrelid = t.oid`,
  `select concat('fn ', proname, ' ', trim(regexp_replace(pg_get_functiondef(oid), '\\s+', ' ', 'g'))) as line
     from pg_proc where pronamespace = 'public'::regnamespace`,
  `select concat('tg ', t.relname, ' ', pg_get_triggerdef(g.oid)) as line
     from (${TABLES}) t join pg_trigger g on g.tgrelid = t.oid where not g.tgisinternal`,
  `select concat('opt ', relname, ' ', coalesce(reloptions::text, 'null'), ' ', coalesce(pg_get_partkeydef(oid), 'null')) as line
     from (${TABLES}) t where reloptions is not null or relkind = 'p'`,
]
