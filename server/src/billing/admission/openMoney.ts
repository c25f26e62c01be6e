import type { RandomBytes } from '../../lib/ids.ts'
import { type Clock, MINUTE_MS, within } from '../../lib/time.ts'
import type { Plans } from '../plans/plans.ts'
import type { AdmissionContext } from './admit.ts'
import type { Gate } from './gates.ts'
import { Looks, type ReadFigures } from './looks.ts'
import { Share } from './share.ts'
import type { ShareRenewer } from './shareRenewer.ts'
import type { SendReclaim } from './wants.ts'

/** Between two reclaims of one organization by one process: other processes need about this long to answer. */
const RECLAIM_INTERVAL_MS = 100

/** A share that nobody has used for this long gives back what it was granted. */
const IDLE_MS = MINUTE_MS

/** Until a change is followed again that the database or the slot did not let happen: several times within 2 s (P5). */
const OBEY_AGAIN_MS = 500

/** The longest that the answer to a change of limits waits for this process. */
const COME_INTO_LINE_MOST_MS = 500

export interface MoneyOptions {
  readonly clock: Clock
  readonly random: RandomBytes
  readonly renewer: ShareRenewer
  readonly plans: Plans
  readonly ownsSlot: () => boolean
  /** Left out: the time can always be relied on. */
  readonly knowsTime?: () => boolean
  /** Asks the other processes to give back what they hold idle, or to come into line; how that goes is not waited for. */
  readonly sendReclaim: SendReclaim
  readonly onUnreadable?: () => void
  /** Reads the figures of accounts that refused a call a moment ago; left out: they are asked each time. */
  readonly readFigures?: ReadFigures
  /** A limit has refused a call, or ended one; how it is noted is not waited for. */
  readonly onLimitReached?: (organizationId: string, gate: Gate) => void
}

/** The money of one process, with the events that change it. */
export interface OpenMoney extends AdmissionContext {
  readonly shares: ReadonlyMap<string, Share>
  /** Somebody is short of money of this organization: gives back what is idle here, and folds what was spent. */
  hearReclaim(organizationId: string): void
  /** Its limits have changed, or it was debited: comes into line with its account, as soon as the database and the slot let it. */
  hearChange(organizationId: string): void
  /**
   * The same, and waits for the account's answer, for half a second at most: new calls are then admitted here by the limits that it has
   * now. Never rejects.
   */
  comeIntoLine(organizationId: string): Promise<void>
  /** Changes may have been missed: comes into line with every account. */
  comeIntoLineWithAll(): void
  /**
   * Gives back what unused shares have and forgets those and unused meters of plans, and folds what others have spent beyond
   * where somebody must be told. Rejects while the database is away; call it again then.
   */
  dropIdle(): Promise<void>
}

export function openMoney(options: MoneyOptions): OpenMoney {
  const { clock, random, renewer, ownsSlot, sendReclaim, readFigures, onUnreadable, onLimitReached, plans } = options
  const shares = new Map<string, Share>()
  const { hearChange, comeIntoLine } = changesOf(shares, options)
  return {
    ...{ clock, random, renewer, plans, shares },
    ownsSlot,
    knowsTime: options.knowsTime ?? (() => true),
    waitingCalls: 0,
    ...(onUnreadable === undefined ? {} : { onUnreadable }),
    ...(onLimitReached === undefined ? {} : { onLimitReached }),
    ...(readFigures === undefined ? {} : { looks: new Looks(clock, readFigures) }),
    share(organizationId) {
      let share = shares.get(organizationId)
      if (share === undefined) {
        share = new Share(organizationId, () => hearChange(organizationId))
        shares.set(organizationId, share)
      }
      return share
    },
    reclaim(share, from = 'idle') {
      const nowMs = clock.monotonicMs()
      const askedAtMs = from === 'all' ? share.allAskedAtMs : share.reclaimedAtMs
      if (nowMs - askedAtMs < RECLAIM_INTERVAL_MS) return
      share.reclaimedAtMs = nowMs
      if (from === 'all') share.allAskedAtMs = nowMs
      sendReclaim(share.organizationId, from)
    },
    hearReclaim(organizationId) {
      const share = shares.get(organizationId)
      if (share === undefined || !share.hearReclaim(clock.monotonicMs()) || !ownsSlot()) return
      // Should that fail, a call that is still short asks again, and an instance at its next minute.
      renewer.renew(share, 0n, { kind: 'reclaim' }).catch(() => {})
    },
    ...{ hearChange, comeIntoLine },
    comeIntoLineWithAll() {
      for (const organizationId of shares.keys()) hearChange(organizationId)
    },
    forgetShares() {
      renewer.forgetRenewals()
      for (const share of shares.values()) share.forgetGrant()
    },
    async dropIdle() {
      plans.dropIdle()
      const unusedSinceMs = clock.monotonicMs() - IDLE_MS
      const idle = [...shares.values()].filter((share) => share.isIdle && share.usedAtMs <= unusedSinceMs)
      const passing = [...shares.values()].filter((share) => share.reachesNotice && !idle.includes(share))
      // A process that never asked the account has nothing of it.
      const granted = [...idle.filter(({ hasAsked }) => hasAsked), ...passing]
      await Promise.all(granted.map((share) => renewer.renew(share, 0n, { kind: 'idle' })))
      for (const share of idle) {
        const isUntouched = share.isIdle && share.usedAtMs <= unusedSinceMs
        // Money that is being given back is still granted if that fails.
        const isEmpty = share.spendableMicrocents <= 0n && share.openAsks === 0
        if (isUntouched && isEmpty && shares.get(share.organizationId) === share) shares.delete(share.organizationId)
      }
    },
  }
}

/** How this process comes into line with accounts that have changed. */
function changesOf(
  shares: ReadonlyMap<string, Share>,
  { clock, renewer, ownsSlot }: Pick<MoneyOptions, 'clock' | 'renewer' | 'ownsSlot'>,
): Pick<OpenMoney, 'hearChange' | 'comeIntoLine'> {
  const unobeyed = new Set<string>()
  const obey = async (share: Share) => {
    // Without its slot it may not write.
    if (!ownsSlot()) return obeyLater(share)
    await renewer.renew(share, 0n, { kind: 'give_back' }).catch(() => obeyLater(share))
  }
  const obeyLater = ({ openUses, organizationId }: Share) => {
    // Where no call is under way nothing is shrunk, and what is idle goes back when somebody is short of it.
    if (openUses === 0) return
    if (unobeyed.size === 0) clock.after(OBEY_AGAIN_MS, obeyAgain)
    unobeyed.add(organizationId)
  }
  const obeyAgain = () => {
    const again = [...unobeyed]
    unobeyed.clear()
    again.forEach(hearChange)
  }
  const hearChange = (organizationId: string) => {
    const share = shares.get(organizationId)
    if (share?.hearChange(clock.monotonicMs())) void obey(share)
  }
  return {
    hearChange,
    async comeIntoLine(organizationId) {
      const share = shares.get(organizationId)
      if (share === undefined) return
      share.hearChange(clock.monotonicMs())
      await within(clock, COME_INTO_LINE_MOST_MS, obey(share), undefined)
    },
  }
}
