import type { DepositAsset } from '../../src/catalog/depositChain.ts'
import { type Seeded, seeded } from '../faults/seeded.ts'

/** How a gateway comes to its end by SIGKILL, while it looks at the chain or screens what has come. */
export type KillMoment =
  /** At the nth answer of a node that tells of payments, or question to the screening, and so many turns of the event loop later. */
  | {
      readonly kind: 'question'
      readonly to: 'node' | 'hook'
      readonly nth: number
      readonly thenTurns: number
      readonly victim: 'asker' | 'other' | 'both'
    }
  /** At once, and again at its nth send to any socket after it was started: to a node, the screening, or the database. */
  | { readonly kind: 'send'; readonly nth: number; readonly gateway: number }

/** The next event of a round. */
export type KillStep =
  | { readonly kind: 'create'; readonly gateway: number; readonly order: KillOrder }
  /** Several amounts are several transfers of one transaction. */
  | {
      readonly kind: 'pay'
      readonly order: KillOrder
      readonly units: readonly bigint[]
      readonly isWrongToken: boolean
    }
  | { readonly kind: 'mine'; readonly blocks: number }
  /** The newest blocks are taken back. Some of the transactions in them are sent once more. */
  | { readonly kind: 'reorganize'; readonly blocks: number; readonly isSentAgain: boolean }
  /** A node is away for a while, or the screening is. */
  | { readonly kind: 'away'; readonly node: number | 'hook' }
  /** Makes all claims count as abandoned: their owners then are as processes that were stopped for a minute, and two do the same work. */
  | { readonly kind: 'abandon' }
  | { readonly kind: 'kill'; readonly moment: KillMoment }
  /** Everybody who is dead is started again; whoever was to die and did not yet, dies first. */
  | { readonly kind: 'restart' }

/** A deposit of the plan. */
export interface KillOrder {
  readonly number: number
  readonly organization: number
  readonly asset: DepositAsset
  readonly amountCents: number
}

export interface DepositKillPlan {
  readonly seed: number
  /** Each with the questions to nodes that are waited for behind it. */
  readonly steps: readonly { readonly step: KillStep; readonly thenQuestions: number }[]
}

const ORDERS = 6
const UNITS_A_CENT = 10_000n
/** A start takes some 100 sends, a second of work some 50. */
const SENDS_LEAST = 150
const SENDS_MOST = 500
/** In so many what was answered is written down, and some more. */
const TURNS_MOST = 3_000

/** The screening rejects such an amount. */
export function isRejectedAmount(units: bigint): boolean {
  return units % 10n === 3n
}

/** Returns the part of a round that a seed decides. The processes' own work differs from time to time. */
export function depositKillPlan(seed: number): DepositKillPlan {
  const random = seeded(seed)
  const orders = Array.from({ length: ORDERS }, (_, number) => orderOf(random, number))
  const steps: KillStep[] = []
  for (const order of orders) steps.push({ kind: 'create', gateway: random.between(0, 1), order })
  const payments = shuffled(
    random,
    orders.flatMap((order) => paymentsOf(random, order)),
  )
  const kinds = shuffled(random, ['node', 'node', 'hook', 'send'] as const)
  const parts = kinds.map((kind, index) => ({
    moment: momentOf(random, kind),
    payments: payments.filter((_, place) => place % kinds.length === index),
  }))
  for (const { moment, payments: own } of parts) {
    steps.push({ kind: 'kill', moment })
    for (const payment of own) {
      steps.push(payment)
      if (random.percent(60)) steps.push(troubleOf(random))
    }
    steps.push({ kind: 'mine', blocks: random.between(1, 4) }, { kind: 'restart' })
  }
  return { seed, steps: steps.map((step) => ({ step, thenQuestions: questionsBehind(random, step) })) }
}

function questionsBehind(random: Seeded, { kind }: KillStep): number {
  return kind === 'create' || kind === 'kill' ? 0 : random.between(0, 12)
}

function orderOf(random: Seeded, number: number): KillOrder {
  const asset = random.pick<DepositAsset>(['usdc', 'usdt'])
  return { number, organization: random.between(0, 1), asset, amountCents: random.between(500, 5_000) }
}

/** Exactly, less, more, in two transfers of one transaction, in two transactions, by a wrong token beside it, of odd units, or nothing. */
function paymentsOf(random: Seeded, order: KillOrder): KillStep[] {
  const asked = BigInt(order.amountCents) * UNITS_A_CENT
  const pay = (...units: bigint[]): KillStep => ({ kind: 'pay', order, units, isWrongToken: false })
  const part = BigInt(random.between(100, order.amountCents - 100)) * UNITS_A_CENT
  // Neither is rejected by its last digit.
  const odd = BigInt(random.between(1, 9_999)) * 10n + 1n
  switch (random.between(1, 8)) {
    case 1:
      return [pay(part)]
    case 2:
      return [pay(asked + odd)]
    case 3:
      return [pay(part, asked - part)]
    case 4:
      return [pay(part), pay(asked - part)]
    case 5:
      return [{ kind: 'pay', order, units: [asked], isWrongToken: true }, pay(asked)]
    case 6:
      return [pay(asked + 3n), pay(part)]
    case 7:
      return [pay(asked), pay(asked)]
    default:
      return [pay(asked)]
  }
}

function troubleOf(random: Seeded): KillStep {
  const kind = random.between(1, 100)
  if (kind <= 30) return { kind: 'mine', blocks: random.between(1, 3) }
  if (kind <= 60) return { kind: 'reorganize', blocks: random.between(1, 2), isSentAgain: random.percent(70) }
  if (kind <= 75) return { kind: 'away', node: random.pick([0, 1, 'hook']) }
  return { kind: 'abandon' }
}

function momentOf(random: Seeded, kind: 'node' | 'hook' | 'send'): KillMoment {
  if (kind === 'send') return { kind, nth: random.between(SENDS_LEAST, SENDS_MOST), gateway: random.between(0, 1) }
  return {
    kind: 'question',
    to: kind,
    nth: kind === 'node' ? random.between(1, 6) : 1,
    thenTurns: random.percent(25) ? 0 : random.between(1, TURNS_MOST),
    victim: random.pick(['asker', 'asker', 'other', 'both']),
  }
}

function shuffled<T>(random: Seeded, list: readonly T[]): T[] {
  const left = [...list]
  const result: T[] = []
  while (left.length > 0) result.push(...left.splice(random.between(0, left.length - 1), 1))
  return result
}
