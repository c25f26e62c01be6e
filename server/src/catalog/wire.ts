import type { Modality, Model, ModelStatus, ParameterDescriptor, Tier } from './model.ts'
import { pricingToWire, type WirePricing } from './wirePricing.ts'

/** A `Model` of the interface. Fields that are not known are left out. */
export interface WireModel {
  id: string
  object: 'model'
  owned_by: string
  modality: Modality
  status: ModelStatus
  pricing: WirePricing
  aliases: readonly string[]
  category: Modality
  context_length?: number
  supported_parameters: readonly string[]
  author?: string
  /** Unix seconds; 0 where the settings don't say. */
  created: number
  fine_tunable?: true
  fine_tune_base_model?: string
  parameters?: readonly ParameterDescriptor[]
  plan_covered?: true
}

/** A model as clients see it at an instant, with the pricing of one of its tiers (M3). */
export function modelToWire(model: Model, tier: Tier, instantMs: number): WireModel {
  return {
    id: model.id,
    object: 'model',
    owned_by: model.ownedBy,
    modality: model.modality,
    status: model.status,
    pricing: pricingToWire(tier.price, model.modality, instantMs),
    aliases: model.aliases,
    category: model.modality,
    ...(model.contextTokens > 0 && { context_length: model.contextTokens }),
    supported_parameters: model.supportedParameters,
    ...(model.author !== null && { author: model.author }),
    created: model.createdSeconds ?? 0,
    ...(model.fineTunable && { fine_tunable: true as const }),
    ...(model.fineTunable && model.fineTuneBaseModel !== null && { fine_tune_base_model: model.fineTuneBaseModel }),
    ...(model.parameters.length > 0 && { parameters: model.parameters }),
    ...(model.planCovered && { plan_covered: true as const }),
  }
}
