import { lockAccountAutoPay, setAccountAutoPay } from '../../billing/admission/balance/autoPay.ts'
import type { Transaction } from '../../infra/postgres/database.ts'
import { Refused } from '../../lib/errors.ts'
import { uuidV7 } from '../../lib/ids.ts'
import { type Clock, MINUTE_MS } from '../../lib/time.ts'
import { listFreezes } from '../freezes/freezes.ts'
import { type AutoPaymentFacts, GIVEN_UP, type ListedPayment } from '../provider/autoPayment.ts'
import { findCustomer } from '../topUps/customer.ts'
import { type AutoPay, dayStartMs, decideAutoPay } from './autoPay.ts'
import { type CompareDependencies, compareList } from './compare.ts'
import { applyAttempt, concludeAttempt, courseOf } from './conclude.ts'
import {
  type AutoPayAttempt,
  countAttemptsSince,
  insertAutoPayment,
  leaseAgreement,
  lockAgreement,
  selectOpenAttempt,
  updateListed,
} from './store.ts'

/**
 * A job belongs to its process for so long: longer than everything that is asked of the payment provider can take. After it another
 * process may find out what came of the payment.
 */
export const AUTO_PAY_LEASE_MS = 5 * MINUTE_MS

export interface AutoPayDependencies extends CompareDependencies {
  readonly clock: Clock
  /** Opens a checkout for an amount at which the payment method is saved; returns its address. */
  readonly openLink: (organizationId: string, amountCents: number) => Promise<string | null>
  /** Organizations have notices. Returns at once. */
  readonly onNoticed: () => void
}

/** A job that was claimed: the process has it until `untilMs`. */
export interface AutoPayJob {
  readonly organizationId: string
  readonly untilMs: number
}

/** The values that the steps of one job share. */
interface AutoPayRun extends AutoPayDependencies {
  readonly organizationId: string
  readonly untilMs: number
  readonly lease: string
  readonly agreement: AutoPay
}

/** A frozen organization pays nothing (B11). Once the freeze is over, a payment is made so soon. */
const FROZEN_LOOK_MS = 10 * MINUTE_MS

const NO_METHOD = { state: 'declined', reason: 'No payment method is saved any more.' } as const

/**
 * Looks at an account whose auto-pay is due: finds out what came of a payment under way, or makes one where the balance is below the
 * threshold. One payment at a time; the payment provider's list is compared first, so that no payment is made twice, even after a
 * backup was restored. Throws where the payment provider can't be asked: the job is due again when its lease is over.
 */
export async function runAutoPay(
  dependencies: AutoPayDependencies,
  { organizationId, untilMs }: AutoPayJob,
): Promise<void> {
  const { database, clock, random, provider } = dependencies
  const lease = uuidV7(clock.now(), random)
  const begun = await database.transaction((tx) => begin(tx, clock, organizationId, lease))
  if (begun === null) return
  const run: AutoPayRun = { ...dependencies, organizationId, untilMs, lease, agreement: begun.agreement }
  const customer = await findCustomer(database, organizationId, provider.name)
  if (customer === null) return conclude(run, null, NO_METHOD)
  const listedAtMs = clock.now()
  const list = await provider.listPayments(customer, listedSinceMs(begun))
  const found = list.find(({ paymentId }) => paymentId === begun.open?.id)
  if (begun.open !== null && found !== undefined && found.facts.state !== 'begun') {
    return conclude(run, begun.open, found.facts)
  }
  // Its process is gone, and nothing came of it. Nobody may pay later what the payment provider has of it.
  if (begun.open !== null && !run.agreement.isEnabled) {
    return conclude(run, begun.open, found === undefined ? GIVEN_UP : await provider.giveUp(found))
  }
  if (
    !(await isCompared(
      run,
      list.filter((each) => each !== found),
    ))
  )
    return
  const method = begun.open?.method ?? (await provider.savedMethod(customer))
  if (method === null) return conclude(run, null, NO_METHOD)
  const attempt = await database.transaction((tx) => prepare(tx, run, begun.open, method, listedAtMs))
  // A process that stood still until now must not ask for what another one may have given up.
  if (attempt === null || clock.now() >= untilMs) return
  const { id: paymentId, amountCents, createdAtMs } = attempt
  const description = `Credit of $${(amountCents / 100).toFixed(2)} by auto-pay`
  const facts = await provider.payOffSession({ ...attempt, paymentId, customer, description, createdAtMs })
  await conclude(run, attempt, facts)
}

interface Begun {
  readonly agreement: AutoPay
  /** The payment under way; null: there is none, and one is to be made. */
  readonly open: AutoPayAttempt | null
}

/** Takes the lease. Null: there is nothing to pay now, and the account has that. */
async function begin(tx: Transaction, clock: Clock, organizationId: string, lease: string): Promise<Begun | null> {
  const account = await lockAccountAutoPay(tx, organizationId)
  const agreement = await leaseAgreement(tx, organizationId, lease)
  if (account === null) return null
  const open = await selectOpenAttempt(tx, organizationId)
  if (agreement !== null && open !== null) return { agreement, open }
  if (agreement?.isEnabled === true && !(await mayAsk(tx, organizationId, agreement, clock.now()))) return null
  const isToPay = agreement !== null && (await mayPay(tx, organizationId, agreement, clock.now()))
  if (agreement === null) await setAccountAutoPay(tx, organizationId, { thresholdMicrocents: null, dueAtMs: null })
  return isToPay ? { agreement, open } : null
}

/**
 * Returns whether a payment is to be made now. Where it is not, the account gets the instant of the next look. The
 * account is locked.
 */
async function mayPay(tx: Transaction, organizationId: string, agreement: AutoPay, nowMs: number): Promise<boolean> {
  const account = await lockAccountAutoPay(tx, organizationId)
  if (account === null) return false
  const tried = await countAttemptsSince(tx, organizationId, dayStartMs(nowMs))
  const step = decideAutoPay(account, agreement, tried, nowMs)
  if (step.kind === 'pay') return true
  const dueAtMs = step.kind === 'wait' ? step.untilMs : null
  await setAccountAutoPay(tx, organizationId, { thresholdMicrocents: account.thresholdMicrocents, dueAtMs })
  return false
}

/**
 * Returns whether every payment in the payment provider's list is known. Where it is not, the account is looked at
 * again later.
 */
async function isCompared(run: AutoPayRun, list: readonly ListedPayment[]): Promise<boolean> {
  const { database, clock, organizationId, lease } = run
  const waitMs = await compareList(run, organizationId, list, clock.now())
  if (waitMs === null) return true
  await database.transaction(async (tx) => {
    const account = await lockAccountAutoPay(tx, organizationId)
    if (account === null || (await lockAgreement(tx, organizationId, lease)) === null) return
    const dueAtMs = clock.now() + waitMs
    await setAccountAutoPay(tx, organizationId, { thresholdMicrocents: account.thresholdMicrocents, dueAtMs })
  })
  return false
}

/**
 * Returns whether the payment provider may be asked for a payment: auto-pay is on and the organization is not frozen
 * (B11). It is the last look before the request. Where it may not, the account gets the instant of the next look.
 * The account is locked.
 */
async function mayAsk(tx: Transaction, organizationId: string, agreement: AutoPay, nowMs: number): Promise<boolean> {
  const isFrozen = (await listFreezes(tx, organizationId)).length > 0
  if (agreement.isEnabled && !isFrozen) return true
  const account = await lockAccountAutoPay(tx, organizationId)
  // A payment that is under way while auto-pay is off is given up by the next look, which is due now.
  const dueAtMs = agreement.isEnabled ? nowMs + FROZEN_LOOK_MS : nowMs
  await setAccountAutoPay(tx, organizationId, { thresholdMicrocents: account?.thresholdMicrocents ?? null, dueAtMs })
  return false
}

/** Notes that the list is known, and the payment that is about to be asked for. Null: nothing is to be paid any more. */
async function prepare(
  tx: Transaction,
  { clock, random, provider, organizationId, lease }: AutoPayRun,
  open: AutoPayAttempt | null,
  method: string,
  listedAtMs: number,
): Promise<AutoPayAttempt | null> {
  await lockAccountAutoPay(tx, organizationId)
  const agreement = await lockAgreement(tx, organizationId, lease)
  if (agreement === null) return null
  const nowMs = clock.now()
  if (open !== null) return (await mayAsk(tx, organizationId, agreement, nowMs)) ? open : null
  const { amountCents } = agreement
  if (amountCents === null || !(await mayPay(tx, organizationId, agreement, nowMs))) return null
  await updateListed(tx, organizationId, listedAtMs)
  const attempt = { id: uuidV7(nowMs, random), organizationId, amountCents, method, createdAtMs: nowMs }
  if (!(await mayAsk(tx, organizationId, agreement, nowMs))) return null
  const isInserted = await insertAutoPayment(tx, provider.name, { ...attempt, state: 'opening' })
  return isInserted ? attempt : null
}

/** Applies what came of a payment. `attempt` null: there is none, since none can be made. */
async function conclude(run: AutoPayRun, attempt: AutoPayAttempt | null, facts: AutoPaymentFacts): Promise<void> {
  const { database, clock, organizationId, lease } = run
  const isFinal = attempt === null
  const told = await toldOf(run, facts, isFinal)
  const createdAtMs = attempt?.createdAtMs ?? clock.now()
  await database.transaction(async (tx) => {
    await lockAccountAutoPay(tx, organizationId)
    const agreement = await lockAgreement(tx, organizationId, lease)
    if (agreement === null) return
    const nowMs = clock.now()
    if (attempt !== null) await applyAttempt(tx, run, attempt, facts, nowMs)
    await concludeAttempt(
      tx,
      agreement,
      organizationId,
      { createdAtMs, facts, link: told?.link ?? null, isFinal },
      nowMs,
    )
  })
  if (told !== null) run.onNoticed()
}

/**
 * Opens the page where a person mends a failure, if the organization is to be told of it; null: it is not. No transaction is open.
 * Where no page may be opened at the moment, by a freeze or the limit of an hour, the organization is told without a link.
 */
async function toldOf(
  { clock, agreement, organizationId, openLink }: AutoPayRun,
  facts: AutoPaymentFacts,
  isFinal: boolean,
): Promise<{ readonly link: string | null } | null> {
  if (!('reason' in facts) || facts.state === 'given_up') return null
  const { tells } = courseOf(agreement, { state: facts.state, isFinal }, clock.now())
  const { amountCents } = agreement
  if (tells === null || amountCents === null) return null
  const opening = openLink(organizationId, amountCents)
  const link = await opening.catch((error: unknown) => {
    if (error instanceof Refused) return null
    throw error
  })
  return { link }
}

/** Everything before it was compared. The payment under way may be older. */
function listedSinceMs({ agreement, open }: Begun): number {
  return Math.min(agreement.listedUntilMs ?? 0, open?.createdAtMs ?? Number.POSITIVE_INFINITY)
}
