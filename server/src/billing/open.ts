import type { Catalog } from '../catalog/model.ts'
import type { Plan, PlanPrice } from '../catalog/plan.ts'
import type { Noter } from '../identity/audit/note.ts'
import type { Metrics } from '../infra/metrics.ts'
import type { Database } from '../infra/postgres/database.ts'
import { isNothingDone, isRefusedData } from '../infra/postgres/faults.ts'
import type { Reads } from '../infra/postgres/reads.ts'
import type { RandomBytes } from '../lib/ids.ts'
import type { Log } from '../lib/log.ts'
import type { PeriodicTask } from '../lib/periodicTask.ts'
import { type Clock, MINUTE_MS } from '../lib/time.ts'
import type { Slot } from '../processes/slot.ts'
import { readFigures } from './admission/accounts/figures.ts'
import { createLimitNoter } from './admission/accounts/noteLimit.ts'
import { CHANGE_CHANNEL, RECLAIM_CHANNEL } from './admission/accounts/reclaim.ts'
import { refuseUnfunded } from './admission/accounts/refuseUnfunded.ts'
import { STALLED_MS } from './admission/admit.ts'
import { type OpenMoney, openMoney } from './admission/openMoney.ts'
import type { OnDayMended } from './admission/renewal/renew.ts'
import { createReclaimer } from './admission/slots/reclaimer.ts'
import { moneyGauges } from './charges/gauges.ts'
import { createLostCharges } from './charges/lostCharges.ts'
import { preparePartitions } from './charges/partitions/prepare.ts'
import { storePrices } from './charges/prices/storePrices.ts'
import { Writer } from './charges/writer.ts'
import type { ReadAutoPay, ReadBurn } from './ledger/getBalance.ts'
import { dropOldDays } from './ledger/retention/dropDays.ts'
import { balanceRoutes } from './ledger/routes.ts'
import { verifyNextDay } from './ledger/verifyInBackground.ts'
import { spendingLimitRoutes } from './limits/routes.ts'
import { createNoticeMailer } from './notices/noticeMailer.ts'
import { noticeRoutes } from './notices/routes.ts'
import { openPlans } from './plans/plans.ts'
import { subscriptionRoutes } from './plans/routes.ts'
import { SUBSCRIPTION_CHANNEL } from './plans/setSubscription.ts'
import { planCheck } from './plans/verify.ts'
import { closeDays } from './statements/closing/closeDays.ts'
import { closeMonths } from './statements/closing/closeMonths.ts'
import { statementCheck } from './statements/closing/verify.ts'
import { statementRoutes } from './statements/routes.ts'
import { usageGroupRoutes } from './usage/groups/routes.ts'
import { createUsageSummer } from './usage/groups/sums/sumUsage.ts'
import { usageRoutes } from './usage/routes.ts'

export interface BillingOptions {
  readonly database: Database
  /** For reads whose clients wait. */
  readonly reads: Reads
  readonly clock: Clock
  readonly random: RandomBytes
  readonly log: Log
  readonly metrics: Metrics
  readonly onDayMended: OnDayMended
  /** Writes changes into the audit log. */
  readonly noter: Noter
  /** False while the time can't be relied on: nothing is admitted then (E20). */
  readonly knowsTime: () => boolean
  readonly slot: Slot
  /** Takes the callback for a slot that was lost; it or another one is owned now. */
  readonly onSlotRegained: (callback: () => void) => void
  readonly catalog: () => Catalog
  /** Below this balance an organization is told so; 0: nobody is. */
  readonly lowBalanceMicrocents: bigint
  readonly chargeDeadlineMs: number
  /** Days for which single charges are kept; null: for ever. */
  readonly retentionDays: number | null
  /** Reads the price of a plan at the payment provider; null where it is not known. Never rejects. */
  readonly readPrice: (plan: Plan) => Promise<PlanPrice | null>
  /** Reads the auto-pay of an organization; null where it is off. */
  readonly readAutoPay: ReadAutoPay
  /** Reads the hourly price of an organization's live instances. */
  readonly readBurn: ReadBurn
  /** True where people have accounts: admins can change to whom notices are mailed. */
  readonly hasAccounts: boolean
  /** The mails of notices. */
  readonly mail: {
    /** False: notices are only logged. */
    readonly sendsMail: boolean
    /** Called when mails were enqueued and committed. */
    readonly wake: () => void
  }
  /** True once the process takes no more requests. */
  readonly isStopping: () => boolean
}

/** Opens the room of billing: the money of this process with its writer, notices, and the verification of the books. */
export async function openBilling(options: BillingOptions) {
  const { database, clock, log, hasAccounts } = options
  await preparePartitions(database, clock.now())
  const { sendsMail, wake: onEnqueued } = options.mail
  const noticeMailer = createNoticeMailer({ database, clock, log, sendsMail, hasAccounts, onEnqueued })
  const onNoticed = noticeMailer.wake
  const { money, plans, lost } = openMoneyOf(options, onNoticed)
  const { writer } = money
  const groups = usageGroups(options)
  return {
    money,
    /** Returns the refusal of work that nobody pays for; null where the organization is funded or entitled. */
    refuseUnfunded: (organizationId: string) => refuseUnfunded({ database, clock, money }, organizationId),
    /** Sees to the notices that this process has written. Returns at once. */
    onNoticed,
    routes: [...routesOf(options, money), ...groups.routes],
    periodicTasks: [
      { name: 'partitions', everyMs: MINUTE_MS, run: () => preparePartitions(database, clock.now()) },
      { name: 'idle shares', everyMs: MINUTE_MS, run: () => money.dropIdle() },
      { name: 'notices', everyMs: MINUTE_MS, run: () => noticeMailer.run() },
      groups.task,
      booksTask(options),
    ],
    metrics: moneyGauges(money),
    channels: {
      [RECLAIM_CHANNEL]: money.hearReclaim,
      [CHANGE_CHANNEL]: money.hearChange,
      [SUBSCRIPTION_CHANNEL]: plans.hear,
    },
    onConfirmed: (confirmed: boolean) => {
      if (confirmed) money.comeIntoLineWithAll()
    },
    warnings: lost.warnings,
    readiness: () => (writer.oldestAgeMs > STALLED_MS ? ['charges are not being committed'] : []),
    drain: () => writer.drain(),
    async close() {
      writer.close()
      await noticeMailer.close()
    },
  }
}

/** The money of this process with its writer and its plans, and what the database has lost of its charges. */
function openMoneyOf(options: BillingOptions, onNoticed: () => void) {
  const { database, clock, random, log, metrics, catalog, slot, lowBalanceMicrocents, chargeDeadlineMs } = options
  const plans = openPlans({
    database,
    clock,
    offered: () => catalog().plans,
    onUnreadable: metrics.planUnreadable,
  })
  const writer = new Writer({
    database,
    slot: () => slot.number,
    takenAtMs: slot.takenAtMs,
    clock,
    random,
    log,
    errors: { isRefusedData, isNothingDone },
    betweenBatches: [plans.reads],
    onEnded: plans.end,
    onPosted: metrics.posted,
    onDead: metrics.dead,
    onLate: metrics.late,
    lowBalanceMicrocents,
    chargeDeadlineMs,
    onNoticed,
    onDayMended: options.onDayMended,
    storePrices: () => storePrices(database, catalog(), clock.now()),
    onLost: (found) => lost.note(found),
  })
  const opened = openMoney({
    clock,
    random,
    renewer: writer,
    plans,
    ownsSlot: slot.isOwned,
    knowsTime: options.knowsTime,
    sendReclaim: createReclaimer({ ...options, slot }),
    readFigures: (organizationId, nowMs) => readFigures(database, organizationId, nowMs),
    onUnreadable: metrics.unreadable,
    onLimitReached: createLimitNoter({ database, clock, log, onNoticed }),
  })
  const money = Object.assign(opened, { writer })
  const lost = createLostCharges({ log, onLost: metrics.lostCharges, forgetShares: money.forgetShares })
  options.onSlotRegained(() => {
    money.forgetShares()
    writer.checkKept()
  })
  return { money, plans, lost }
}

/** The routes of all parts but usage in groups. */
function routesOf(options: BillingOptions, money: OpenMoney) {
  const { database, reads, clock, catalog, log, noter, readAutoPay, readBurn, readPrice, isStopping } = options
  return [
    ...balanceRoutes({ database: reads, readAutoPay, readBurn }),
    ...subscriptionRoutes({ database: reads, clock, catalog, log, readPrice }),
    ...usageRoutes({ database: reads, clock }),
    ...spendingLimitRoutes({ database, reads, clock, money, noter }),
    ...noticeRoutes({ database: reads }),
    ...statementRoutes({ database, reads, clock, catalog, log, isStopping }),
  ]
}

/** The route of usage in groups, and the task that sums blocks of hours for it. */
function usageGroups({ database, reads, clock, catalog }: BillingOptions) {
  const summer = createUsageSummer({ database, clock })
  const modalities = () => new Map(catalog().models.map(({ id, modality }) => [id, modality]))
  const task: PeriodicTask = { name: 'sums of usage', everyMs: MINUTE_MS, run: summer.run }
  return { routes: usageGroupRoutes({ reads, clock, summer, modalities }), task }
}

/** Days of posting that one run closes at most: an upgrade has those of the past closed within some minutes. */
const CLOSED_DAYS_MOST = 31

/**
 * Closes days and months, verifies a day, then drops what is past its retention: one after the other, so that no day is dropped while it
 * is verified.
 */
function booksTask({ database, clock, log, metrics, retentionDays }: BillingOptions): PeriodicTask {
  const checks = [planCheck, statementCheck]
  const onDisagreements = metrics.disagreed
  return {
    name: 'books',
    everyMs: MINUTE_MS,
    async run(isStopping) {
      // A step that fails is tried again by the next run, and keeps no other from its work.
      try {
        await closeDays(database, clock.now(), CLOSED_DAYS_MOST, isStopping)
        await closeMonths(database, clock.now(), isStopping)
      } finally {
        try {
          await verifyNextDay({ database, clock, log, checks, onDisagreements, isStopping })
        } finally {
          if (retentionDays !== null && !isStopping()) await dropOldDays({ database, log }, retentionDays, clock.now())
        }
      }
    },
  }
}
