import { BRAND } from '../kernel/brand.ts'
import { CHAT_DEFAULTS, type Model, tierOf } from './model.ts'
import { type FlatTokenPrice, MICROCENTS_PER_CENT } from './price.ts'
import type { Offer } from './settings.ts'
import { SANDBOX_DEFAULTS, type SandboxUpstreamSettings } from './upstream.ts'

function wholeCents(input: bigint, output: bigint): FlatTokenPrice {
  return {
    kind: 'tokens',
    inputMicrocents: input * MICROCENTS_PER_CENT,
    outputMicrocents: output * MICROCENTS_PER_CENT,
    cachedInputMicrocents: null,
  }
}

const SANDBOX: SandboxUpstreamSettings = { name: 'sandbox', dialect: 'sandbox', ...SANDBOX_DEFAULTS }

/** What answers where the settings name no models: simulated, needs nothing and no network. */
export function sandboxOffer(ownedBy: string): Offer {
  const targets = [{ upstream: SANDBOX.name, model: 'sandbox' }]
  const model: Model = {
    ...CHAT_DEFAULTS,
    id: `${BRAND}/sandbox`,
    aliases: ['sandbox'],
    ownedBy,
    author: 'Simulated by Tollgate for trying things out: no model answers, the text is made up',
    contextTokens: 32_768,
    maxOutputTokens: 4_096,
    serverless: tierOf('serverless', wholeCents(100n, 200n), targets),
    economy: tierOf('economy', wholeCents(50n, 100n), targets),
  }
  return { models: [model], upstreams: [SANDBOX] }
}
