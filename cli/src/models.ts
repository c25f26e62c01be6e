import { facts, table } from '../../server/src/lib/table.ts'
import { callApi } from './api.ts'
import type { CliCommand } from './command.ts'

const MODALITIES = ['chat', 'image', 'video', 'embedding'] as const

/** Behind the name of a model: its tier of lower prices. */
const ECONOMY = ':economy'

interface ShownPricing {
  readonly input_per_1m_tokens_cents?: number
  readonly output_per_1m_tokens_cents?: number
  readonly per_image_microcents?: number
  readonly per_mpxl_microcents?: number
  readonly per_video_second_microcents?: number
  readonly period?: string
}

interface ShownModel {
  readonly id: string
  readonly modality: string
  readonly status: string
  readonly pricing: ShownPricing
  readonly aliases?: readonly string[]
  readonly context_length?: number
  readonly plan_covered?: boolean
  readonly parameters?: readonly { readonly name: string; readonly type: string; readonly default?: unknown }[]
}

/** `tollgate models` */
export const modelsCommand: CliCommand = {
  words: ['models'],
  summary: 'List the models and their prices, or show one',
  argument: { name: 'ID', summary: 'the model to show', isOptional: true },
  options: [{ name: 'modality', value: 'WORD', summary: 'only models of this kind', choices: MODALITIES }],
  examples: ['tollgate models', 'tollgate models --modality video', 'tollgate models svc/sandbox'],
  run: async (args, system) => {
    if (args.argument !== '') {
      const path = `/v1/models/${encodeURIComponent(args.argument)}`
      const model = (await callApi(args, system, { method: 'GET', path })) as ShownModel
      return { json: model, text: facts(factsOf(model, args.argument)) }
    }
    const modality = args.text('modality')
    const query = modality === undefined ? '' : `?${new URLSearchParams({ modality })}`
    const list = await callApi(args, system, { method: 'GET', path: `/v1/models${query}` })
    const { data } = list as { readonly data: readonly ShownModel[] }
    const rows = data.map((model) => [model.id, model.modality, model.status, priceOf(model.pricing)])
    return {
      json: list,
      text: table(['MODEL', 'MODALITY', 'STATUS', 'PRICE'], rows, 'There are no such models.', system.stdoutColumns),
    }
  },
}

/** `asked`: the name that was asked for. It may be an alias, or end in the tier that the price is of. */
function factsOf(model: ShownModel, asked: string): [string, string][] {
  const { id, modality, status, aliases = [], context_length: context, plan_covered: covered, parameters = [] } = model
  return [
    ['Model', asked.endsWith(ECONOMY) ? `${id}${ECONOMY}` : id],
    ...(aliases.length > 0 ? ([['Also called', aliases.join(', ')]] satisfies [string, string][]) : []),
    ['Modality', modality],
    ['Status', status],
    ['Price', priceOf(model.pricing)],
    ...(context === undefined ? [] : ([['Context', `${context} tokens`]] satisfies [string, string][])),
    ['In plans', covered === true ? 'yes' : 'no'],
    ...parameters.map(({ name, default: preset }): [string, string] => [
      `--${name}`,
      preset === undefined ? 'accepted' : `${preset} when left out`,
    ]),
  ]
}

/** Such as `$1.00 in, $2.00 out per 1M tokens`. */
function priceOf(pricing: ShownPricing): string {
  const dollars = (cents: number | undefined) => `$${((cents ?? 0) / 100).toFixed(2)}`
  const exact = (microcents: number) => `$${Number((microcents / 100_000_000).toFixed(8))}`
  const { input_per_1m_tokens_cents: input, output_per_1m_tokens_cents: output, period } = pricing
  const { per_image_microcents: image, per_mpxl_microcents: megapixel, per_video_second_microcents: second } = pricing
  if (image !== undefined) return `${exact(image)} per image`
  if (megapixel !== undefined) return `${exact(megapixel)} per megapixel`
  if (second !== undefined) return `${exact(second)} per second`
  if (input === undefined && output === undefined) return '-'
  const now = period === undefined ? '' : `, now (${period.replace('_', '-')})`
  return `${dollars(input)} in${output === undefined ? '' : `, ${dollars(output)} out`} per 1M tokens${now}`
}
