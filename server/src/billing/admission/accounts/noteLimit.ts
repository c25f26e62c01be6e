import type { Queryable } from '../../../infra/postgres/database.ts'
import type { Log } from '../../../lib/log.ts'
import { type Clock, utcDay } from '../../../lib/time.ts'
import { type Gate, NEW_ACCOUNT_CAP_MICROCENTS } from '../gates.ts'
import { readFigures } from './figures.ts'
import { insertNotice } from './store.ts'
import { windowsAt } from './windows.ts'

/** Organizations that were noted this day, kept so that their next refusals ask nothing of the database. */
const REMEMBERED_MAX = 10_000

export interface NoteLimitDependencies {
  readonly database: Queryable
  readonly clock: Clock
  readonly log: Log
  /** Called when something was noted that nobody was told before. */
  readonly onNoticed: () => void
}

/**
 * Notes that a limit refused or ended a call: a limit that leaves too little for any call is never met to the micro-cent,
 * so no renewal sees it. Returns at once; what can't be noted now is by the next refusal.
 */
export function createLimitNoter(dependencies: NoteLimitDependencies): (organizationId: string, gate: Gate) => void {
  const { clock, log } = dependencies
  let day = ''
  const noted = new Set<string>()
  return (organizationId, gate) => {
    // An organization without balance was told when its balance became low.
    if (gate === 'balance') return
    const nowMs = clock.now()
    if (day !== utcDay(nowMs) || noted.size >= REMEMBERED_MAX) noted.clear()
    day = utcDay(nowMs)
    const key = `${organizationId} ${gate}`
    if (noted.has(key)) return
    noted.add(key)
    note(dependencies, organizationId, gate, nowMs).catch((error: unknown) => {
      noted.delete(key)
      log.warn(
        { err: error, organizationId, gate },
        'a limit that was reached could not be noted; tried again by the next refusal',
      )
    })
  }
}

async function note(
  { database, onNoticed }: NoteLimitDependencies,
  organizationId: string,
  gate: Exclude<Gate, 'balance'>,
  nowMs: number,
): Promise<void> {
  const figures = await readFigures(database, organizationId, nowMs)
  if (figures === null) return
  const { at, day, month } = windowsAt(nowMs)
  const reached = {
    daily: ['daily', day, figures.daySpentMicrocents, figures.dailyLimitMicrocents],
    monthly: ['monthly', month, figures.monthSpentMicrocents, figures.monthlyLimitMicrocents],
    newAccount: ['new_account', day, figures.hourSpentMicrocents, NEW_ACCOUNT_CAP_MICROCENTS],
  } as const
  const [kind, period, amountMicrocents, limitMicrocents] = reached[gate]
  // Cleared meanwhile: nothing is reached any more.
  if (limitMicrocents === null) return
  const { enforcement } = figures
  const isFirst = await insertNotice(database, {
    organizationId,
    kind,
    period,
    amountMicrocents,
    limitMicrocents,
    enforcement,
    at,
  })
  if (isFirst) onNoticed()
}
