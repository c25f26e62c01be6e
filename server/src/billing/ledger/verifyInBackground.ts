import type { Database } from '../../infra/postgres/database.ts'
import { type Disagreement, disagreementToJson } from '../../lib/disagreement.ts'
import type { Log } from '../../lib/log.ts'
import { type Clock, DAY_MS, HOUR_MS, sleep, utcDay } from '../../lib/time.ts'
import { claimDayToVerify, listChargeDays, noteVerified } from './store.ts'
import { type Check, verifyAccounts, verifyDay } from './verify.ts'

/** After its end a day is left alone for this long, so that charges that wait for the database are in. */
const GRACE_MS = HOUR_MS

/** A day that did not agree, or whose verification did not end, is looked at again after this long. */
const AGAIN_AFTER_MS = DAY_MS

/** Between pages: with some 5 ms a page, one connection is busy for a third of the time at most. */
const PAUSE_MS = 10

/** Of a day; the rest is counted. */
const LOGGED_MOST = 20

export interface BackgroundDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly log: Log
  readonly checks: readonly Check[]
  /** Called with how many disagreements a verification has found, if any. */
  readonly onDisagreements: (count: number) => void
  /** True once the process stops: the day is then left to another time. */
  readonly isStopping: () => boolean
}

/**
 * Verifies all accounts and one day that is over and was not gone through yet, if there is one; among many processes each
 * day falls to one. Called once a minute, that is every day once, and after an upgrade one day of the past a minute.
 * Charges that come to a day after that are seen in the accounts and, one by one, by `tollgate ledger verify`. Gives the
 * day, or null when none was due. Rejects when the process stops on the way.
 */
export async function verifyNextDay(dependencies: BackgroundDependencies): Promise<string | null> {
  const { database, clock, log, checks, onDisagreements, isStopping } = dependencies
  const startedAtMs = clock.now()
  const firstOpenDay = utcDay(startedAtMs - GRACE_MS)
  const days = (await listChargeDays(database)).filter((day) => day < firstOpenDay)
  const day = await claimDayToVerify(database, days, startedAtMs, startedAtMs - AGAIN_AFTER_MS)
  if (day === null) return null
  let found = 0
  const note = (disagreement: Disagreement) => {
    found += 1
    if (found <= LOGGED_MOST) log.error({ day, disagreement: disagreementToJson(disagreement) }, 'the books disagree')
  }
  const pause = async () => {
    await sleep(clock, PAUSE_MS)
    if (isStopping()) throw new Error(`the process stops; the verification of ${day} is left to another time`)
  }
  const verifying = { database, pause, checks }
  const wholes = checks.map((check) => check.whole(verifying))
  for (const found of [verifyAccounts(verifying), ...wholes, verifyDay(verifying, day)]) {
    for await (const disagreement of found) note(disagreement)
  }
  await noteVerified(database, day, found, clock.now())
  if (found > 0) {
    log.error({ day, disagreements: found }, 'the books disagree; run "tollgate ledger verify" for all of it')
    onDisagreements(found)
  }
  return day
}
