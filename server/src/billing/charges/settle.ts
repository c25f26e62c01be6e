/** How a call ends in money, in two steps: {@link prepare} says what it costs, {@link commit} charges that. */

import type { ImagePrice, TokenRate } from '../../catalog/price.ts'
import type { Participant } from '../../infra/postgres/database.ts'
import type { TokenUsage } from '../../lib/tokenUsage.ts'
import { type AdmissionContext, type Admitted, extendHold } from '../admission/admit.ts'
import { weightedTokens } from '../plans/weigh.ts'
import type { CallOutcome, HeldCharge, ImageUsage } from './charge.ts'
import type { MayGiveUp, Posted } from './chargeQueue.ts'
import { priceEmbeddings, priceImages, priceTokens } from './pricing.ts'
import { boundUsage, type Usage, type UsageBound, usageBound } from './usageBound.ts'
import type { Writer } from './writer.ts'

/** Admission, with the writer that posts the charges of calls. */
export interface ChargingMoney extends AdmissionContext {
  readonly writer: Writer
}

/** How a call is priced, and the most that it may be charged for: both frozen at its admission. */
export interface Terms {
  readonly bound: UsageBound
  /** The list price of a usage, in micro-cents. */
  readonly price: (usage: Usage) => bigint
  /** Left out for chat. */
  readonly modality?: 'embedding' | 'image'
}

/** The terms of a chat call: `rate` is the one in force when it was admitted. */
export function chatTerms(rate: TokenRate, bound: Omit<UsageBound, 'images' | 'videoSeconds'>): Terms {
  return { bound: usageBound(bound), price: ({ usage }) => priceTokens(rate, usage) }
}

/** The terms of a call for embeddings: the prompt's tokens, rounded up to a whole cent (B1). */
export function embeddingTerms(rate: TokenRate, promptTokens: number): Terms {
  return {
    bound: usageBound({ promptTokens }),
    price: ({ usage }) => priceEmbeddings(rate, usage.promptTokens),
    modality: 'embedding',
  }
}

/** The terms of a call for images; `most` is what was asked for. */
export function imageTerms(price: ImagePrice, most: ImageUsage): Terms {
  return {
    bound: usageBound({ images: most }),
    price: ({ images }) => priceImages(price, images?.count ?? 0, images?.pixels ?? 0),
    modality: 'image',
  }
}

/** The usage of a call that ended, and how it ended. */
export interface Delivered extends Usage {
  /** True when tokens were counted here: the provider reported none, or fewer than can be believed. */
  readonly estimated: boolean
  /** The target that served it. */
  readonly target: string
  readonly outcome: CallOutcome
}

export const NO_TOKENS: TokenUsage = { promptTokens: 0, cachedPromptTokens: 0, completionTokens: 0 }

/** The charge of a call, before it is posted. Its hold is open until {@link commit}. */
export interface Prepared {
  readonly admitted: Admitted
  readonly charge: HeldCharge
}

/**
 * Bounds what was delivered, prices it, and extends the hold to the price, waiting 2 s at most for the money. The charge is the
 * smaller of price and hold (C10), which is not shrunk any more. A call that a plan covers costs nothing, and counts on the plan's
 * meter instead. Never rejects, but for a usage that is no usage.
 */
export function prepare(
  money: AdmissionContext,
  admitted: Admitted,
  terms: Terms,
  delivered: Delivered,
): Prepared | Promise<Prepared> {
  const { admission, hold } = admitted
  hold.freeze()
  const bounded = boundUsage(delivered, terms.bound)
  const listMicrocents = terms.price(bounded)
  if (admission.cover !== undefined || listMicrocents <= hold.microcents) {
    return toPrepared(admitted, terms, bounded, listMicrocents)
  }
  const extended = extendHold(money, hold, money.share(admission.organizationId), listMicrocents)
  const done = () => toPrepared(admitted, terms, bounded, listMicrocents)
  return extended instanceof Promise ? extended.then(done) : done()
}

function toPrepared(admitted: Admitted, { modality }: Terms, delivered: Delivered, listMicrocents: bigint): Prepared {
  const { admission, hold } = admitted
  const { cover } = admission
  const heldMicrocents = hold.microcents
  const isCapped = cover === undefined && listMicrocents > heldMicrocents
  const costMicrocents = cover !== undefined ? 0n : isCapped ? heldMicrocents : listMicrocents
  const charge: Changeable<HeldCharge> = { ...admission, ...delivered, heldMicrocents, costMicrocents }
  if (isCapped) charge.listMicrocents = listMicrocents
  if (modality !== undefined) charge.modality = modality
  if (cover !== undefined) {
    charge.metered = { ...weightedTokens(delivered.usage, cover.factorThousandths), listMicrocents }
  }
  return { admitted, charge }
}

type Changeable<T> = { -readonly [Name in keyof T]: T[Name] }

/**
 * Charges a prepared call and ends its hold. The money leaves the share at once; the promise resolves when the charge is
 * durable, or at its deadline. Only after `posted` the answer may leave whole. `superseded`: a participant let it not be charged,
 * since another does the same work; its money is free again. `withdrawn` and `late`: the deadline passed; `mayGiveUp`
 * decides between the two, and is asked then. `participants` commit together with the charge. Throws when the call's hold has ended
 * before: a call is charged once.
 */
export function commit(
  money: ChargingMoney,
  { admitted, charge }: Prepared,
  participants?: readonly Participant[],
  mayGiveUp?: MayGiveUp,
): Promise<Posted> {
  admitted.hold.spend(charge.costMicrocents)
  const share = money.share(charge.organizationId)
  if (charge.cover !== undefined) money.plans.add(charge)
  return money.writer.post(charge, share, participants, mayGiveUp)
}
