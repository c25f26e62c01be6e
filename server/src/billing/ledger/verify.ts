/**
 * The verification of the books. Each function looks at a piece, in pages, and yields what disagrees as it finds it: the
 * memory it takes does not grow with the books. Together they hold the balance identity: accounts against the sums of
 * their days, days against hours, hours against charges, and each charge against its usage and price.
 */

import { type PriceVersion, priceFromJson, priceHash, rateAt } from '../../catalog/price.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import type { Disagreement, MeteredSums } from '../../lib/disagreement.ts'
import { LOWEST_UUID, toHex } from '../../lib/ids.ts'
import { DAY_MS, HOUR_MS } from '../../lib/time.ts'
import type { TokenUsage } from '../../lib/tokenUsage.ts'
import { priceEmbeddings, priceImages, priceInstancePart, priceTokens, priceVideo } from '../charges/pricing.ts'
import { weightedTokens } from '../plans/weigh.ts'
import { compareWithSums } from './days.ts'
import {
  type ChargeRow,
  compareDay,
  compareHour,
  readAccountBooks,
  readCharges,
  readPriceVersion,
  timesDropped,
} from './store.ts'

/** Rows a page: a few milliseconds of the database, about a megabyte here. */
const CHARGES_PAGE = 5_000
const ACCOUNTS_PAGE = 200

/** Of one hour or day. A fault in the code makes thousands alike, and the first few tell all. */
const DIFFERENCES_MOST = 100

/** Price versions kept while charges are gone through. */
const PRICES_MOST = 10_000

export interface VerifyDependencies {
  readonly database: Queryable
  /** Called between pages, so that one may wait there and leave the database to others. */
  readonly pause: () => Promise<void>
  readonly checks: readonly Check[]
}

/** The check of figures that another part of billing keeps beside the ledger, such as the meters of plans. */
export interface Check {
  /** Checks everything that belongs to no single day. */
  whole(dependencies: Pick<VerifyDependencies, 'database' | 'pause'>): AsyncGenerator<Disagreement, void>
  /**
   * Checks one UTC day against its charges; yields at most `most` of each hour. `hasCovered` tells whether a plan covers any
   * charge of the day.
   */
  day(
    dependencies: Pick<VerifyDependencies, 'database' | 'pause'>,
    dayMs: number,
    hasCovered: boolean,
    most: number,
  ): AsyncGenerator<Disagreement, void>
}

/** Every account: the balance identity, and that shares add up. Each page of accounts is one snapshot. */
export async function* verifyAccounts({ database, pause }: VerifyDependencies): AsyncGenerator<Disagreement, void> {
  for (let after = LOWEST_UUID; ; ) {
    const page = await readAccountBooks(database, after, ACCOUNTS_PAGE)
    for (const { organizationId, booked, kept, granted, shares, held, holds } of page) {
      if (booked !== kept) yield { kind: 'balance', organizationId, booked, kept }
      if (granted !== shares) yield { kind: 'granted', organizationId, granted, shares }
      if (held !== holds) yield { kind: 'held', organizationId, held, holds }
    }
    const last = page.at(-1)
    if (last === undefined || page.length < ACCOUNTS_PAGE) return
    after = last.organizationId
    await pause()
  }
}

/** One UTC day (`YYYY-MM-DD`): its charges, its rollups, its sums, and where it was dropped the ledger entries for it. */
export async function* verifyDay(dependencies: VerifyDependencies, day: string): AsyncGenerator<Disagreement, void> {
  const { database, pause, checks } = dependencies
  const dayMs = Date.parse(`${day}T00:00:00Z`)
  const hasCovered = yield* verifyCharges(dependencies, dayMs, dayMs + DAY_MS)
  for (const { organizationId, hours, days } of await compareDay(database, dayMs, DIFFERENCES_MOST)) {
    yield { kind: 'day', organizationId, day, hours, days }
  }
  if ((await timesDropped(database, day)) > 0) {
    const { differences } = await compareWithSums(database, day, DIFFERENCES_MOST)
    for (const found of differences) yield { kind: 'dropped', day, ...found }
    return
  }
  for (let hourMs = dayMs; hourMs < dayMs + DAY_MS; hourMs += HOUR_MS) {
    for (const found of await compareHour(database, hourMs, DIFFERENCES_MOST)) {
      yield { kind: 'rollup', hourMs, ...found }
    }
    await pause()
  }
  for (const check of checks) yield* check.day(dependencies, dayMs, hasCovered, DIFFERENCES_MOST)
}

/**
 * Every charge admitted in a window: what its usage costs at the price that it cites, and where a plan covers it what it
 * counts on the meter. Returns whether a plan covers any.
 */
async function* verifyCharges(
  { database, pause }: VerifyDependencies,
  startMs: number,
  endMs: number,
): AsyncGenerator<Disagreement, boolean> {
  let hasCovered = false
  const prices = new Map<string, PriceVersion | 'missing' | 'altered'>()
  for (let from = { admittedAtMs: startMs, id: LOWEST_UUID }; ; ) {
    const page = await readCharges(database, from, endMs, CHARGES_PAGE)
    for (const charge of page) {
      let price = prices.get(charge.priceHash)
      if (price === undefined) {
        if (prices.size >= PRICES_MOST) prices.clear()
        price = await readPrice(database, charge.priceHash)
        prices.set(charge.priceHash, price)
      }
      hasCovered ||= charge.cover !== null
      const found = checkCharge(charge, price)
      if (found !== null) yield found
    }
    const last = page.at(-1)
    if (last === undefined || page.length < CHARGES_PAGE) return hasCovered
    from = last
    await pause()
  }
}

/** A price version by its name, which is the hash of its figures: it can't have been changed where they agree. */
async function readPrice(database: Queryable, hash: string): Promise<PriceVersion | 'missing' | 'altered'> {
  const json = await readPriceVersion(database, hash)
  if (json === null) return 'missing'
  try {
    const price = priceFromJson(json)
    return toHex(priceHash(price)) === hash ? price : 'altered'
  } catch {
    return 'altered'
  }
}

function checkCharge(charge: ChargeRow, price: PriceVersion | 'missing' | 'altered'): Disagreement | null {
  const { organizationId, id: chargeId, priceHash: hash, costMicrocents } = charge
  if (price === 'missing' || price === 'altered') {
    return { kind: 'price', organizationId, chargeId, priceHash: hash, problem: price }
  }
  const usage = {
    promptTokens: Number(charge.promptTokens),
    cachedPromptTokens: Number(charge.cachedPromptTokens),
    completionTokens: Number(charge.completionTokens),
  }
  const recomputed = listPrice(charge, price, usage)
  if (charge.cover !== null) return checkCover(charge, charge.cover, usage, recomputed)
  const { listMicrocents } = charge
  // One that is cut to its hold costs less than its price, and something of it was held.
  const isCapped = listMicrocents !== null && costMicrocents < listMicrocents && costMicrocents >= 0n
  return recomputed === (isCapped ? listMicrocents : costMicrocents)
    ? null
    : { kind: 'cost', organizationId, chargeId, charged: costMicrocents, recomputed }
}

/**
 * Returns the cost of a charge without a plan, in micro-cents; 0 when the price is of another kind than the call,
 * which is never charged.
 */
function listPrice(charge: ChargeRow, price: PriceVersion, usage: TokenUsage): bigint {
  if (charge.modality === 'image') {
    if (price.kind !== 'image' && price.kind !== 'megapixel') return 0n
    return priceImages(price, charge.imageCount, Number(charge.imagePixels))
  }
  if (charge.modality === 'video') return price.kind === 'video_second' ? priceVideo(price, charge.videoSeconds) : 0n
  if (charge.modality === 'instance') {
    return price.kind === 'instance_hour' ? priceInstancePart(price, charge.instance) : 0n
  }
  if (price.kind !== 'tokens' && price.kind !== 'tokens_by_time') return 0n
  const rate = rateAt(price, charge.admittedAtMs)
  return charge.modality === 'embedding' ? priceEmbeddings(rate, usage.promptTokens) : priceTokens(rate, usage)
}

function checkCover(
  { organizationId, id: chargeId, costMicrocents }: ChargeRow,
  { factorThousandths, metered }: NonNullable<ChargeRow['cover']>,
  usage: TokenUsage,
  listMicrocents: bigint,
): Disagreement | null {
  const { inputTokens, outputTokens } = weightedTokens(usage, factorThousandths)
  const recomputed: MeteredSums = [inputTokens, outputTokens, listMicrocents]
  const agrees = costMicrocents === 0n && recomputed.every((figure, index) => figure === metered[index])
  return agrees ? null : { kind: 'cover', organizationId, chargeId, charged: costMicrocents, metered, recomputed }
}
