import { catalogOf } from '../catalog/assemble.ts'
import type { Model, Tier } from '../catalog/model.ts'
import { printTimeOfDay } from '../catalog/peak.ts'
import type { PriceTable, TokenRate } from '../catalog/price.ts'
import { table } from '../lib/table.ts'
import { printUsd } from '../lib/usd.ts'
import { CONFIG_OPTION, type Command, DATA_DIR_OPTION } from './command.ts'
import { configOf } from './environment.ts'
import { priceCells } from './prices.ts'

/** `tollgate models list` */
export const listModelsCommand: Command = {
  words: ['models', 'list'],
  summary: 'List the models that are offered, with their prices; those found on this machine too',
  options: [DATA_DIR_OPTION, CONFIG_OPTION],
  examples: ['tollgate models list'],
  run: async (invocation, context) => {
    const config = await configOf(invocation, context)
    const found = await context.findModels(config)
    const { models } = catalogOf(config.settings, found, null)
    const rows = models.flatMap((model) => rowsOf(model))
    const note = found.length === 0 ? '' : '\nA server offers the found models that were there when it started.\n'
    return {
      json: models.map(toJson),
      text:
        table(
          ['MODEL', 'MODALITY', 'STATUS', 'IN $/1M', 'OUT $/1M', 'TARGETS'],
          rows,
          'No models are offered: add some to the settings file.',
          context.stdoutColumns,
        ) + note,
    }
  },
}

function rowsOf(model: Model): string[][] {
  const shared = [model.modality, model.status]
  const row = (id: string, tier: Tier) => {
    const { input, cachedInput, output } = priceCells(tier.price, printUsd, (microcents) => `$${printUsd(microcents)}`)
    const shown = model.modality === 'embedding' ? '-' : output
    const inputs = cachedInput === '-' ? input : `${input}, cached ${cachedInput}`
    return [id, ...shared, inputs, shown, targetsOf(tier).join(', ') || '-']
  }
  const serverless = row([model.id, ...model.aliases].join(', '), model.serverless)
  return model.economy === null ? [serverless] : [serverless, row(`${model.id}:economy`, model.economy)]
}

function toJson(model: Model) {
  const tier = ({ price, ...rest }: Tier) => ({ ...priceToJson(price), targets: targetsOf(rest) })
  const { id, modality, status, aliases, contextTokens, serverless, economy } = model
  return {
    id,
    modality,
    status,
    aliases,
    context_length: contextTokens === 0 ? null : contextTokens,
    serverless: tier(serverless),
    economy: economy === null ? null : tier(economy),
  }
}

function priceToJson(price: PriceTable) {
  switch (price.kind) {
    case 'tokens':
      return rateToJson(price)
    case 'tokens_by_time':
      return {
        peak: rateToJson(price.peak),
        off_peak: rateToJson(price.offPeak),
        peak_windows_utc: price.peakWindows.map(({ startMinute, endMinute }) => ({
          start: printTimeOfDay(startMinute),
          end: printTimeOfDay(endMinute),
        })),
      }
    case 'image':
      return { usd_per_image: printUsd(price.perImageMicrocents) }
    case 'megapixel':
      return { usd_per_megapixel: printUsd(price.perMegapixelMicrocents) }
    case 'video_second':
      return { usd_per_video_second: printUsd(price.perSecondMicrocents) }
  }
}

function rateToJson({ inputMicrocents, cachedInputMicrocents, outputMicrocents }: TokenRate) {
  return {
    input_usd_per_1m_tokens: printUsd(inputMicrocents),
    cached_input_usd_per_1m_tokens: cachedInputMicrocents === null ? null : printUsd(cachedInputMicrocents),
    output_usd_per_1m_tokens: printUsd(outputMicrocents),
  }
}

/** Each as `provider/model`, in the order in which they are tried. */
function targetsOf(tier: Pick<Tier, 'targets'>): string[] {
  return tier.targets.map((target) => `${target.provider}/${target.model}`)
}
