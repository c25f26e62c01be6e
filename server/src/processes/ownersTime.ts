import type { Queryable } from '../infra/postgres/database.ts'
import { sqlStateOf } from '../infra/postgres/faults.ts'
import { type Clock, MINUTE_MS } from '../lib/time.ts'
import { readLifeStart, readServerStart } from './store.ts'

/** After a start or a promotion of the database owners have this long to take their locks again before anyone takes them over. */
const OWNERS_FIRST_MS = MINUTE_MS

/** Not supported, not permitted, not known. */
const REFUSED = ['0A000', '42501', '42883']

/** The time that owners of locks have to come back, during which a lock that nobody has does not mean that its owner is dead. */
export class OwnersTime {
  private readonly clock: Clock
  private showsTimeline = true

  constructor(clock: Clock) {
    this.clock = clock
  }

  /**
   * Returns whether it is over. A start in the future says that the database's clock was set back since then, which
   * is followed after a minute only (E20). Some servers let nobody see their timeline; there only a start counts,
   * and no promotion. To find that out, ask first outside of a transaction.
   */
  async isOver(db: Queryable): Promise<boolean> {
    return Math.abs(this.clock.now() - (await this.sinceMs(db))) > OWNERS_FIRST_MS
  }

  private async sinceMs(db: Queryable): Promise<number> {
    if (!this.showsTimeline) return readServerStart(db)
    try {
      return await readLifeStart(db)
    } catch (error) {
      if (!REFUSED.includes(sqlStateOf(error) ?? '')) throw error
      this.showsTimeline = false
      return readServerStart(db)
    }
  }
}
