import type { RandomBytes } from '../kernel/ids.ts'
import { type Clock, MINUTE_MS } from '../kernel/time.ts'
import type { Money } from './admit.ts'
import type { Gate } from './gates.ts'
import { openPlans, type PlansOptions } from './plan/plans.ts'
import { Wallet } from './wallet.ts'
import type { Writer } from './writer.ts'

/** Between two recalls of one organization by one process: other processes need about this long to answer. */
const RECALL_INTERVAL_MS = 100

/** A wallet that nobody has used for this long gives back what it was granted. */
const IDLE_MS = MINUTE_MS

export interface MoneyOptions {
  readonly clock: Clock
  readonly random: RandomBytes
  readonly writer: Writer
  readonly ownsSlot: () => boolean
  /** Asks the other processes to give back what they hold idle; how that goes is not waited for. */
  readonly sendRecall: (organizationId: string) => void
  readonly onUnreadable?: () => void
  /** A limit has refused a call, or ended one; how it is noted is not waited for. */
  readonly onLimitReached?: (organizationId: string, gate: Gate) => void
  /** Left out, no plan is ever offered. */
  readonly plans?: Pick<PlansOptions, 'offered' | 'onUnreadable'>
}

/** The money part of one process, with what its surroundings tell it. */
export interface OpenMoney extends Money {
  readonly wallets: ReadonlyMap<string, Wallet>
  /** Someone is short of money of this organization, or its limits have changed. */
  hearRecall(organizationId: string): void
  /** Recalls may have been missed: comes into line with every account. */
  recallAll(): void
  /** A subscription was changed: the next call of the organization sees it. */
  hearSubscription(organizationId: string): void
  /**
   * Gives back what unused wallets have and forgets those, and folds what others have spent beyond where somebody must be
   * told. Rejects while the database is away; call it again then.
   */
  dropIdle(): Promise<void>
}

const NOTHING_OFFERED: PlansOptions['offered'] = () => []

export function openMoney(options: MoneyOptions): OpenMoney {
  const { clock, random, writer, ownsSlot, sendRecall, onUnreadable, onLimitReached, plans } = options
  const wallets = new Map<string, Wallet>()
  const giveBack = (wallet: Wallet) => writer.refill(wallet, 0n, { kind: 'recall' })
  // Without its slot it may not write; with it again it forgets its allotments and asks anew.
  const obey = (wallet: Wallet) => {
    if (ownsSlot()) giveBack(wallet).catch(() => {})
  }
  return {
    clock,
    random,
    writer,
    plans: openPlans({ clock, writer, offered: NOTHING_OFFERED, ...plans }),
    wallets,
    ownsSlot,
    waitingCalls: 0,
    ...(onUnreadable === undefined ? {} : { onUnreadable }),
    ...(onLimitReached === undefined ? {} : { onLimitReached }),
    wallet(organizationId) {
      let wallet = wallets.get(organizationId)
      if (wallet === undefined) {
        wallet = new Wallet(organizationId)
        wallets.set(organizationId, wallet)
      }
      return wallet
    },
    recall(wallet) {
      const nowMs = clock.monotonicMs()
      if (nowMs - wallet.recalledAtMs < RECALL_INTERVAL_MS) return
      wallet.recalledAtMs = nowMs
      sendRecall(wallet.organizationId)
    },
    hearRecall(organizationId) {
      const wallet = wallets.get(organizationId)
      if (wallet !== undefined) obey(wallet)
    },
    hearSubscription(organizationId) {
      wallets.get(organizationId)?.plan?.expire()
    },
    recallAll() {
      for (const wallet of wallets.values()) obey(wallet)
    },
    forgetAllotments() {
      writer.forgetRefills()
      for (const wallet of wallets.values()) wallet.forgetAllotment()
    },
    async dropIdle() {
      const unusedSinceMs = clock.now() - IDLE_MS
      const idle = [...wallets.values()].filter((wallet) => wallet.isIdle && wallet.usedAtMs <= unusedSinceMs)
      const passing = [...wallets.values()].filter((wallet) => wallet.passesNotice && !idle.includes(wallet))
      // Who never asked the account has nothing of it.
      await Promise.all([...idle.filter(({ hasAsked }) => hasAsked), ...passing].map(giveBack))
      for (const wallet of idle) {
        const isUntouched = wallet.isIdle && wallet.usedAtMs <= unusedSinceMs && wallet.spendableMicrocents <= 0n
        if (isUntouched && wallets.get(wallet.organizationId) === wallet) wallets.delete(wallet.organizationId)
      }
    },
  }
}
