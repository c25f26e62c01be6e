import { BRAND } from '../lib/brand.ts'
import { MICROCENTS_PER_CENT } from '../lib/money.ts'
import { CHAT_DEFAULTS, type Model, tierOf } from './model.ts'
import type { FlatTokenPrice } from './price.ts'
import { SANDBOX_DEFAULTS, type SandboxProviderSettings } from './provider.ts'
import type { Offer } from './settings.ts'

function wholeCents(input: bigint, output: bigint): FlatTokenPrice {
  return {
    kind: 'tokens',
    inputMicrocents: input * MICROCENTS_PER_CENT,
    outputMicrocents: output * MICROCENTS_PER_CENT,
    cachedInputMicrocents: null,
  }
}

const SANDBOX: SandboxProviderSettings = { name: 'sandbox', dialect: 'sandbox', ...SANDBOX_DEFAULTS }

const AUTHOR = 'Simulated by Tollgate to try things out: no model answers'

/**
 * Returns the models and the provider that are served where the settings name no models: simulated, without any
 * network.
 */
export function sandboxOffer(ownedBy: string): Offer {
  const targets = [{ provider: SANDBOX.name, model: 'sandbox' }]
  const chat: Model = {
    ...CHAT_DEFAULTS,
    id: `${BRAND}/sandbox`,
    aliases: ['sandbox'],
    ownedBy,
    author: `${AUTHOR}, the text is made up`,
    contextTokens: 32_768,
    maxOutputTokens: 4_096,
    planCovered: true,
    serverless: tierOf('serverless', wholeCents(100n, 200n), targets),
    economy: tierOf('economy', wholeCents(50n, 100n), targets),
  }
  const other = { ...CHAT_DEFAULTS, ownedBy, maxOutputTokens: 0, supportedParameters: [], economy: null }
  const embedding: Model = {
    ...other,
    modality: 'embedding',
    id: `${BRAND}/sandbox-embedding`,
    aliases: ['sandbox-embedding'],
    author: `${AUTHOR}, vectors follow from the words`,
    contextTokens: 8_192,
    serverless: tierOf('serverless', wholeCents(10n, 0n), targets),
  }
  const image: Model = {
    ...other,
    modality: 'image',
    id: `${BRAND}/sandbox-image`,
    aliases: ['sandbox-image'],
    author: `${AUTHOR}, the image shows its prompt`,
    contextTokens: 0,
    parameters: [
      { name: 'n', type: 'int', default: 1, min: 1, max: 4 },
      { name: 'size', type: 'enum', default: '512x512', enum: ['256x256', '512x512', '1024x1024'] },
    ],
    serverless: tierOf('serverless', { kind: 'image', perImageMicrocents: 2n * MICROCENTS_PER_CENT }, targets),
  }
  const video: Model = {
    ...other,
    modality: 'video',
    id: `${BRAND}/sandbox-video`,
    aliases: ['sandbox-video'],
    author: `${AUTHOR}, the clip shows its prompt`,
    contextTokens: 0,
    parameters: [
      { name: 'seconds', type: 'int', default: 4, min: 1, max: 20 },
      { name: 'size', type: 'enum', default: '640x360', enum: ['320x180', '640x360', '1280x720'] },
    ],
    serverless: tierOf(
      'serverless',
      { kind: 'video_second', perSecondMicrocents: 5n * MICROCENTS_PER_CENT, perVideoMicrocents: null },
      targets,
    ),
  }
  return { models: [chat, embedding, image, video], providers: [SANDBOX] }
}
