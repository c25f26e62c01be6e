/** The values that usage is grouped by, as the statement that reads it has them. Pure. */

import { LOWEST_UUID } from '../../../lib/ids.ts'
import type { UsageGrouping } from './group.ts'

/** A value that usage is grouped by. Values are in the order of the texts that name them. */
export interface GroupValue {
  /** The column of the rows that are added up first. Modalities are told by models. */
  readonly column: 'model' | 'tier' | 'key_id' | 'member_id' | 'period'
  /** The same of a piece `p`, whose key is `k`. */
  readonly ofPiece: string
  readonly type: 'text' | 'uuid' | 'timestamptz'
}

const MODEL: GroupValue = { column: 'model', ofPiece: 'p.model', type: 'text' }
const PERIOD: GroupValue = { column: 'period', ofPiece: 'p.period', type: 'timestamptz' }

export const GROUP_VALUES: Readonly<Record<UsageGrouping, GroupValue>> = {
  model: MODEL,
  key: { column: 'key_id', ofPiece: 'p.key_id', type: 'uuid' },
  // Keys of the organization come first.
  member: { column: 'member_id', ofPiece: `coalesce(k.member_id, '${LOWEST_UUID}')`, type: 'uuid' },
  tier: { column: 'tier', ofPiece: 'p.tier', type: 'text' },
  modality: MODEL,
  hour: PERIOD,
  day: PERIOD,
  week: PERIOD,
  month: PERIOD,
}
