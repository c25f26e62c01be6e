import type { Session } from '../session.ts'
import type { Side } from './side.ts'
import type { Table } from './table.ts'

/** Everything that a measure works with. */
export interface Scale {
  readonly session: Session
  /** The small database, then the large one. Each has its main gateway running, before and after each measure. */
  readonly sides: readonly [Side, Side]
  readonly table: Table
  readonly mockPort: number
  /** How often a measure takes its turns. */
  readonly rounds: number
  /** Calls of one turn. */
  readonly calls: number
  /** Organizations that call before a restart, or a minute without calls. */
  readonly crowd: number
  /** Seconds of each measurement of chat beside something. */
  readonly seconds: number
  /** Chat calls a second beside something. */
  readonly chatRate: number
  readonly deliveries: number
  readonly idleSeconds: number
}
