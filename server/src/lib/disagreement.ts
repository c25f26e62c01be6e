/**
 * The disagreements that the verification of the books can find. Amounts are micro-cents, instants milliseconds since
 * the epoch.
 */

import { toTimestamp } from './time.ts'

/** Requests, prompt, cached and completion tokens, micro-cents, images, seconds of video. */
export type RollupSums = readonly [bigint, bigint, bigint, bigint, bigint, bigint, bigint]

/** Weighted input and output tokens, and micro-cents by list price. */
export type MeteredSums = readonly [bigint, bigint, bigint]

export type Disagreement =
  /** Σ ledger entries − Σ charges is not what the account and its shares keep. */
  | { readonly kind: 'balance'; readonly organizationId: string; readonly booked: bigint; readonly kept: bigint }
  /** The amount that the account has as granted is not the sum that its shares were granted. */
  | { readonly kind: 'granted'; readonly organizationId: string; readonly granted: bigint; readonly shares: bigint }
  /** The amount that the account has as held for work that outlives its request is not the sum of its holds. */
  | { readonly kind: 'held'; readonly organizationId: string; readonly held: bigint; readonly holds: bigint }
  /** A charge is not what its usage costs at its price version. */
  | {
      readonly kind: 'cost'
      readonly organizationId: string
      readonly chargeId: string
      readonly charged: bigint
      readonly recomputed: bigint
    }
  /** A charge cites a price that is not stored, or is not the one of its name. */
  | {
      readonly kind: 'price'
      readonly organizationId: string
      readonly chargeId: string
      readonly priceHash: string
      readonly problem: 'missing' | 'altered'
    }
  /** A charge that a plan covers costs something, or counts on the meter what its usage does not come to. */
  | {
      readonly kind: 'cover'
      readonly organizationId: string
      readonly chargeId: string
      readonly charged: bigint
      readonly metered: MeteredSums
      readonly recomputed: MeteredSums
    }
  /** The covered charges of an hour are not what the plan's meter of that hour says. */
  | {
      readonly kind: 'plan_hour'
      readonly organizationId: string
      readonly hourMs: number
      readonly periodStartMs: number
      readonly charged: MeteredSums | null
      readonly metered: MeteredSums | null
    }
  /** The meter of a plan's period is not the sum of its hours. */
  | {
      readonly kind: 'plan_period'
      readonly organizationId: string
      readonly periodStartMs: number
      readonly hours: MeteredSums | null
      readonly period: MeteredSums | null
    }
  /** The charges of an hour are not what its rollups say. */
  | {
      readonly kind: 'rollup'
      readonly organizationId: string
      readonly hourMs: number
      readonly model: string
      readonly tier: string
      readonly keyId: string
      readonly charged: RollupSums | null
      readonly rolledUp: RollupSums | null
    }
  /** A day's sum is not that of its hours. */
  | {
      readonly kind: 'day'
      readonly organizationId: string
      readonly day: string
      readonly hours: bigint
      readonly days: bigint
    }
  /** The statements of an organization, with what was posted since the last one, are not what its books say. */
  | { readonly kind: 'statement'; readonly organizationId: string; readonly stated: bigint; readonly booked: bigint }
  /** The ledger entries that stand for a dropped day are not what its rollups say. */
  | {
      readonly kind: 'dropped'
      readonly organizationId: string
      readonly day: string
      readonly kept: bigint
      readonly rolledUp: bigint
    }

/** One line for the operator. */
export function describe(found: Disagreement): string {
  const who = `organization ${found.organizationId}`
  switch (found.kind) {
    case 'balance':
      return `${who}: the ledger less all charges comes to ${found.booked} micro-cents, the account keeps ${found.kept}`
    case 'granted':
      return `${who}: the account has ${found.granted} micro-cents granted, its shares were granted ${found.shares}`
    case 'held':
      return `${who}: the account has ${found.held} micro-cents held, its holds come to ${found.holds}`
    case 'cost':
      return `${who}: charge ${found.chargeId} is ${found.charged} micro-cents, its usage costs ${found.recomputed}`
    case 'price':
      return `${who}: charge ${found.chargeId} cites the price ${found.priceHash}, which is ${
        found.problem === 'missing' ? 'not stored' : 'stored with other figures'
      }`
    case 'cover':
      return (
        `${who}: charge ${found.chargeId} is covered by a plan and ${found.charged} micro-cents; it counts ` +
        `${tokens(found.metered)}, its usage ${tokens(found.recomputed)}`
      )
    case 'plan_hour':
      return (
        `${who}: ${toTimestamp(found.hourMs)}, plan's period from ${toTimestamp(found.periodStartMs)}: ` +
        `covered charges have ${tokens(found.charged)}; the meter ${tokens(found.metered)}`
      )
    case 'plan_period':
      return (
        `${who}: the hours of the plan's period from ${toTimestamp(found.periodStartMs)} come to ` +
        `${tokens(found.hours)}; the period's meter says ${tokens(found.period)}`
      )
    case 'rollup':
      return (
        `${who}: ${toTimestamp(found.hourMs)}, ${found.model} (${found.tier}), key ${found.keyId}: ` +
        `charges have ${figures(found.charged)}; rollups ${figures(found.rolledUp)}`
      )
    case 'day':
      return `${who}: the hours of ${found.day} come to ${found.hours} micro-cents, or requests differ; the day says ${found.days}`
    case 'statement':
      return `${who}: statements, and what was posted since, come to ${found.stated} micro-cents; the books say ${found.booked}`
    case 'dropped':
      return `${who}: the ledger keeps ${found.kept} micro-cents for the dropped day ${found.day}, its rollups say ${found.rolledUp}`
  }
}

function figures(read: RollupSums | null): string {
  if (read === null) return 'nothing'
  const [requests, prompt, cached, completion, cost, images, seconds] = read
  const drawn = images === 0n ? '' : `${images} images, `
  const clips = seconds === 0n ? '' : `${seconds} seconds of video, `
  return `${requests} requests, ${prompt}+${completion} tokens (${cached} cached), ${drawn}${clips}${cost} micro-cents`
}

function tokens(read: MeteredSums | null): string {
  if (read === null) return 'nothing'
  const [input, output, list] = read
  return `${input}+${output} weighted tokens, ${list} micro-cents by list price`
}

/** For machines: amounts as digits in strings, since they may pass what a JSON number holds exactly. */
export function disagreementToJson(found: Disagreement): object {
  return JSON.parse(
    JSON.stringify({ ...found, message: describe(found) }, (_, value) =>
      typeof value === 'bigint' ? value.toString() : value,
    ),
  )
}
