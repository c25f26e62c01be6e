import type { ImagePrice, TokenRate } from '../catalog/price.ts'
import type { Rider } from '../io/postgres/database.ts'
import type { TokenUsage } from '../upstream/spec.ts'
import type { Admitted, Money } from './admit.ts'
import type { Charge, ImageUsage, Outcome } from './charge.ts'
import { priceEmbeddings, priceImages, priceTokens, weightedTokens } from './pricing.ts'

/** What is committed together with a charge, made of its cost; must not reject. */
export type RidersFor = (costMicrocents: bigint) => Promise<readonly Rider[]>

/** What there is to charge for. */
export interface Delivered {
  readonly usage: TokenUsage
  /** True when the tokens were counted here because the upstream reported none. */
  readonly estimated: boolean
  /** The target that served it. */
  readonly target: string
  readonly outcome: Outcome
}

/**
 * Charges a call at `rate`, the one in force when it was admitted, and ends its hold. The money leaves the wallet at once; the promise resolves when the charge is durable,
 * however long the database takes: an answer that waits for it must not leave before. Returns the cost in micro-cents; a
 * call that a plan covers costs nothing, and counts on the plan's meter instead.
 * Throws when the call's hold has ended before: a call is charged once. What `ridersFor` makes of the cost is committed
 * together with the charge. Null: a rider let it not be charged, since another does the same work; its money is free again,
 * and its answer must not leave whole.
 */
export function settle(
  money: Money,
  admitted: Admitted,
  rate: TokenRate,
  delivered: Delivered,
  ridersFor?: RidersFor,
): Promise<bigint | null> {
  return post(money, admitted, delivered, () => priceTokens(rate, delivered.usage), ridersFor)
}

/** The same for embeddings: the prompt's tokens, rounded up to a whole cent (B1). */
export function settleEmbeddings(
  money: Money,
  admitted: Admitted,
  rate: TokenRate,
  { promptTokens, estimated, target }: Omit<Delivered, 'usage' | 'outcome'> & { readonly promptTokens: number },
  ridersFor?: RidersFor,
): Promise<bigint | null> {
  const usage = { promptTokens, cachedPromptTokens: 0, completionTokens: 0 }
  const delivered = { usage, estimated, target, outcome: 'completed', modality: 'embedding' } as const
  return post(money, admitted, delivered, () => priceEmbeddings(rate, promptTokens), ridersFor)
}

/** The same for the images of one request. */
export function settleImages(
  money: Money,
  admitted: Admitted,
  price: ImagePrice,
  { images, target }: { readonly images: ImageUsage; readonly target: string },
  ridersFor?: RidersFor,
): Promise<bigint | null> {
  const delivered = {
    usage: NO_TOKENS,
    estimated: false,
    target,
    outcome: 'completed',
    modality: 'image',
    images,
  } as const
  return post(money, admitted, delivered, () => priceImages(price, images.count, images.pixels), ridersFor)
}

const NO_TOKENS: TokenUsage = { promptTokens: 0, cachedPromptTokens: 0, completionTokens: 0 }

async function post(
  money: Money,
  admitted: Admitted,
  delivered: Delivered & Pick<Charge, 'modality' | 'images'>,
  listPrice: () => bigint,
  ridersFor?: RidersFor,
): Promise<bigint | null> {
  const charge = chargeFor(admitted, delivered, listPrice())
  admitted.hold.spend(charge.costMicrocents)
  const wallet = money.wallet(admitted.admission.organizationId)
  if (charge.metered !== undefined) wallet.plan?.add(charge.metered)
  const riders = ridersFor === undefined ? undefined : await ridersFor(charge.costMicrocents)
  return (await money.writer.post(charge, wallet, riders)) ? charge.costMicrocents : null
}

function chargeFor({ admission }: Admitted, delivered: Delivered, listMicrocents: bigint): Charge {
  const { cover } = admission
  if (cover === undefined) return { ...admission, ...delivered, costMicrocents: listMicrocents }
  const metered = { ...weightedTokens(delivered.usage, cover.factorThousandths), listMicrocents }
  return { ...admission, ...delivered, costMicrocents: 0n, metered }
}
