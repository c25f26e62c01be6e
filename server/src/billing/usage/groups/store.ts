/**
 * The statement that reads usage in groups. Rollups are written where charges are posted (`billing/charges/store.ts`), their sums in
 * `sums/`.
 */

import { arrayLiteral, type Transaction } from '../../../infra/postgres/database.ts'
import { toTimestamp } from '../../../lib/time.ts'
import type { GroupNames, UsageGroupings, UsageGroups } from './group.ts'
import { type GroupRow, nameToRow, toGroups } from './row.ts'
import type { UsageStretch } from './stretch.ts'
import { SUM_COLUMNS, SUMS_OF_COLUMNS } from './sums/columns.ts'
import { GROUP_VALUES } from './value.ts'

/**
 * Lets all statements of a transaction see the database as it is at the next one. None is compiled: PostgreSQL can't tell how few hours
 * follow the sums of a day that goes on, and to compile a statement that seems long takes longer than to run it.
 */
export async function beginSnapshot(tx: Transaction): Promise<void> {
  await tx.query('set transaction isolation level repeatable read, read only; set local jit = off')
}

export interface GroupsQuestion {
  readonly organizationId: string
  readonly groupings: UsageGroupings
  /** The window, in stretches that are read. */
  readonly stretches: readonly UsageStretch[]
  /** Modalities of the models that are offered, by model. */
  readonly modalities: ReadonlyMap<string, string>
  /** The names of the last group of the page before; null on the first. */
  readonly after: GroupNames | null
  readonly limit: number
}

/** Reads the groups of a window, in the order of their names, and the sums of all. */
export async function selectGroups(tx: Transaction, question: GroupsQuestion): Promise<UsageGroups> {
  const { organizationId, groupings, stretches, modalities, after, limit } = question
  const instants = (of: (stretch: UsageStretch) => number | null) =>
    arrayLiteral(stretches.map(of).map((atMs) => (atMs === null ? null : toTimestamp(atMs))))
  const rows = await tx.query<GroupRow>(statementOf(groupings), [
    organizationId,
    arrayLiteral(stretches.map(({ hours }) => hours)),
    instants(({ startMs }) => startMs),
    instants(({ endMs }) => endMs),
    instants(({ periodMs }) => periodMs),
    limit,
    ...groupings.map((grouping, index) => nameToRow(grouping, after?.[index] ?? null)),
    ...(groupings.includes('modality')
      ? [arrayLiteral([...modalities.keys()]), arrayLiteral([...modalities.values()])]
      : []),
  ])
  return toGroups(groupings, rows)
}

/** The tables `stretches`, from $2 to $5, and `pieces` of the organization $1: one row for each stretch, block or hour, model, tier and key. */
const PIECES = `
  stretches as materialized (
    select * from unnest($2::text::integer[], $3::text::timestamptz[], $4::text::timestamptz[], $5::text::timestamptz[])
      as s (hours, from_at, to_at, period)
  ), pieces as (
    select x.period, s.* from stretches x cross join lateral (
      select model, tier, key_id, ${SUM_COLUMNS} from usage_sums
      where organization_id = $1::uuid and hours = x.hours and starts_at >= x.from_at and starts_at < x.to_at offset 0
    ) s where x.hours > 1
    union all
    select x.period, h.* from stretches x cross join lateral (
      select model, tier, key_id, ${SUM_COLUMNS} from usage_hours
      where organization_id = $1::uuid and hour >= x.from_at and hour < x.to_at offset 0
    ) h where x.hours = 1
  )`

/** A model that the catalog does not have any more is told by the units that it was charged by in the window. */
const MODALITY = `coalesce(c.modality, case when g.model like 'instance/%' then 'instance'
    when sum(g.image_count) over by_model > 0 then 'image'
    when sum(g.video_seconds) over by_model > 0 then 'video'
    when sum(g.completion_tokens) over by_model > 0 then 'chat' else 'embedding' end)`

/**
 * The text has the groupings alone, so that each is prepared once. $6 is the limit; then come the names of the last group before the
 * page, and the models and modalities of the catalog.
 */
function statementOf(groupings: UsageGroupings): string {
  const values = groupings.map((grouping) => GROUP_VALUES[grouping])
  const names = values.map(({ type }, index) => `$${7 + index}::text::${type}`)
  const added = new Map(values.map(({ column, ofPiece }) => [column, ofPiece]))
  return `
    with ${PIECES}, added_up as (
      select ${[...added].map(([column, ofPiece]) => `${ofPiece} as ${column}`).join(', ')}, ${SUMS_OF_COLUMNS}
      from pieces p ${groupings.includes('member') ? 'left join api_keys k on k.id = p.key_id' : ''}
      group by ${[...added.values()].join(', ')}
    ), grouped as materialized (
      ${groupedBy(groupings)}
    )
    select true as is_total, null as one, null as two, ${SUMS_OF_COLUMNS} from grouped having count(*) > 0
    union all
    (select false, one, two, ${SUM_COLUMNS} from grouped
      where $7::text is null or (${values.length === 1 ? 'one' : 'one, two'}) > (${names.join(', ')})
      order by one, two limit $6::integer)`
}

/** Selects the groups of rows that are added up by their columns. Texts are in the order of their code points, whatever the database's. */
function groupedBy(groupings: UsageGroupings): string {
  const [one = '', two = 'null::text'] = groupings.map((grouping) => {
    const { column, type } = GROUP_VALUES[grouping]
    const value = grouping === 'modality' ? MODALITY : `g.${column}`
    return type === 'text' ? `(${value}) collate "C"` : value
  })
  if (!groupings.includes('modality')) return `select ${one} as one, ${two} as two, ${SUM_COLUMNS} from added_up g`
  const at = 7 + groupings.length
  return `select one, two, ${SUMS_OF_COLUMNS} from (
        select ${one} as one, ${two} as two, ${SUM_COLUMNS} from added_up g
        left join unnest($${at}::text::text[], $${at + 1}::text::text[]) as c (model, modality) on c.model = g.model
        window by_model as (partition by g.model)
      ) named group by one, two`
}
