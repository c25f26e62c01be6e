import { readFigures } from '../../billing/admission/accounts/figures.ts'
import type { AdmissionContext } from '../../billing/admission/admit.ts'
import { priceTokens } from '../../billing/charges/pricing.ts'
import { isWithin } from '../../billing/plans/cover.ts'
import { type Catalog, lookUp, lookUpForCall, type Model, type ResolvedModel } from '../../catalog/model.ts'
import { type PriceTable, rateAt } from '../../catalog/price.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import type { Log } from '../../lib/log.ts'
import { ok, type Result } from '../../lib/result.ts'
import type { Clock } from '../../lib/time.ts'
import { judge, type Verdict } from './verdict.ts'

export interface PreflightDependencies {
  readonly database: Queryable
  readonly clock: Clock
  readonly log: Log
  readonly money: AdmissionContext
  readonly catalog: () => Catalog
}

/** A verdict on a model by its canonical id. */
export type Preflight = Verdict & { readonly model: string }

/**
 * Returns the verdict on a call of `name` (an id or alias, perhaps with `:economy`) if it were made now. Refuses as
 * the call would where there is no such model. Reads only.
 */
export async function askPreflight(
  dependencies: PreflightDependencies,
  organizationId: string,
  name: string,
): Promise<Result<Preflight>> {
  const catalog = dependencies.catalog()
  const known = lookUp(catalog, name)
  if (!known.ok) return known
  const found = lookUpForCall(catalog, name, known.value.model.modality)
  if (!found.ok) return found
  return ok({ model: found.value.model.id, ...(await judgeCall(dependencies, organizationId, found.value)) })
}

/** The same of a model that is at hand. */
export async function judgeCall(
  { database, clock, log, money }: PreflightDependencies,
  organizationId: string,
  { model, tier }: ResolvedModel,
): Promise<Verdict> {
  const nowMs = clock.now()
  const [plan, figures] = await Promise.all([
    money.plans.ask(organizationId, model, nowMs),
    // No call is admitted while the time is in doubt (E20).
    !money.knowsTime()
      ? null
      : readFigures(database, organizationId, nowMs).catch((error: unknown) => {
          log.warn({ err: error }, 'preflight could not read an account')
          return null
        }),
  ])
  return judge({
    modality: model.modality,
    plan,
    isOffered: money.plans.offered().some((each) => isWithin(each, model)),
    figures,
    costsMoney: model.modality === 'embedding' || !isFree(tier.price, nowMs),
    wholeOutputMicrocents: mayAskForLess(model) ? wholeOutputOf(model, tier.price, nowMs) : null,
  })
}

/** Returns whether a call of the model may say `max_tokens`. */
function mayAskForLess({ modality, supportedParameters }: Model): boolean {
  return modality === 'chat' && supportedParameters.includes('max_tokens')
}

/** Returns the cost, now, of all output that a chat model may give. */
function wholeOutputOf({ maxOutputTokens }: Model, price: PriceTable, nowMs: number): bigint {
  const usage = { promptTokens: 0, cachedPromptTokens: 0, completionTokens: maxOutputTokens }
  return priceTokens(rateAt(price, nowMs), usage)
}

/** Returns whether a call costs nothing, however long. Embeddings never do: each costs a cent at least (B1). */
function isFree(price: PriceTable, nowMs: number): boolean {
  switch (price.kind) {
    case 'image':
      return price.perImageMicrocents === 0n
    case 'megapixel':
      return price.perMegapixelMicrocents === 0n
    case 'video_second':
      return price.perSecondMicrocents === 0n
    default: {
      const { inputMicrocents, outputMicrocents } = rateAt(price, nowMs)
      return inputMicrocents === 0n && outputMicrocents === 0n
    }
  }
}
