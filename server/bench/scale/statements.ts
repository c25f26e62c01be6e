import type { Side } from './side.ts'

/** Statements that PostgreSQL has carried out since they were last forgotten, those of the bench left out. */
export interface StatementCount {
  readonly all: number
  /** Renewals of shares, folds among them: the statement is the same. */
  readonly renewals: number
}

/** The renewal's statement is the one that has this part. */
const RENEWAL = '%wanted as (%mine as (%unfolded as (%'

export function forgetStatements(side: Side): Promise<unknown> {
  return side.asSuperuser((database) => database.query('select pg_stat_statements_reset()'))
}

/** Counts begins and commits too, as PostgreSQL does. */
export function countStatements(side: Side): Promise<StatementCount> {
  return side.asSuperuser(async (database) => {
    const [row] = await database.query<{ all: bigint; renewals: bigint }>(
      `select coalesce(sum(calls), 0)::bigint as all, coalesce(sum(calls) filter (where query like $1), 0)::bigint as renewals
       from pg_stat_statements where query not like '%pg_stat_statements%'`,
      [RENEWAL],
    )
    return { all: Number(row?.all), renewals: Number(row?.renewals) }
  })
}
