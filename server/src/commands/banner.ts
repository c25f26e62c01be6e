import { relative } from 'node:path'
import type { Model, Tier } from '../catalog/model.ts'
import { ECONOMY_SUFFIX } from '../catalog/model.ts'
import { MICROCENTS_PER_CENT } from '../catalog/price.ts'
import { priceCells } from './prices.ts'

export interface BannerFacts {
  readonly host: string
  readonly port: number
  readonly adminPort: number
  /** The first key, on the first start only. */
  readonly key: string | null
  readonly models: readonly Model[]
  /** Whether local models are looked for at start, and whether any were found. */
  readonly discovery: boolean
  readonly foundModels: boolean
  /** Absolute. */
  readonly dataDirectory: string
  /** Null where there is none. */
  readonly settingsFile: string | null
  readonly json: boolean
}

/** More lines would push the key out of sight. */
const MODELS_SHOWN_MAX = 20

/** What a person, or with `--json` a program, is told once calls are served. */
export function banner(facts: BannerFacts): string {
  const url = `http://${hostInUrl(facts.host)}:${facts.port}/v1`
  if (facts.json) {
    const { port, adminPort, key } = facts
    const models = facts.models.map(({ id }) => id)
    return `${JSON.stringify({ url, port, admin_port: adminPort, ...(key === null ? {} : { key }), models })}\n`
  }
  const paragraphs = [
    [
      `Tollgate serves at ${url}, described at ${url}/openapi.json`,
      `Metrics at http://127.0.0.1:${facts.adminPort}/metrics, readiness at /ready there`,
    ],
    modelLines(facts.models),
    hints(facts),
    ...(facts.key === null ? [keyHint(facts)] : firstCall(url, facts.key, facts.models)),
  ]
  return `${paragraphs
    .filter((lines) => lines.length > 0)
    .map((lines) => `${lines.join('\n')}\n`)
    .join('\n')}\n`
}

function modelLines(models: readonly Model[]): string[] {
  if (models.length === 0) return ['No model is offered: add some to the settings file.']
  const rows = models.flatMap((model) => rowsOf(model))
  const shown = rows.slice(0, MODELS_SHOWN_MAX)
  const heading = { name: 'Cents per million tokens', input: 'in', output: 'out', note: '' }
  const width = (read: (row: Row) => string) => Math.max(...[heading, ...shown].map((row) => read(row).length))
  const names = width(({ name }) => name)
  const inputs = width(({ input }) => input)
  const outputs = width(({ output }) => output)
  const lines = [heading, ...shown].map(({ name, input, output, note }) =>
    `  ${name.padEnd(names)}  ${input.padStart(inputs)}  ${output.padStart(outputs)}  ${note}`.trimEnd(),
  )
  if (rows.length > shown.length) lines.push(`  and ${rows.length - shown.length} more: GET /v1/models lists them all`)
  return lines
}

interface Row {
  readonly name: string
  readonly input: string
  readonly output: string
  readonly note: string
}

function rowsOf({ id, modality, status, author, serverless, economy }: Model): Row[] {
  // What an author says after a colon is for the catalog.
  const notes = [status === 'active' ? '' : status, author?.split(':')[0] ?? ''].filter((note) => note !== '')
  const row = (name: string, { price }: Tier, note: string): Row => {
    const { input, output } = priceCells(price, cents, (microcents) => `${cents(microcents)} cents`)
    // What is not charged by tokens says so beside it: in the column it would push all others apart.
    if (modality === 'image' || modality === 'video') {
      return { name, input, output: '-', note: [output, note].filter((part) => part !== '').join(', ') }
    }
    return { name, input, output: modality === 'embedding' ? '-' : output, note }
  }
  const first = row(id, serverless, notes.join(', '))
  return economy === null ? [first] : [first, row(`${id}${ECONOMY_SUFFIX}`, economy, '')]
}

/** Exact: a price under a cent must not look like nothing. */
function cents(microcents: bigint): string {
  const fraction = String(microcents % MICROCENTS_PER_CENT)
    .padStart(6, '0')
    .replace(/0+$/, '')
  return `${microcents / MICROCENTS_PER_CENT}${fraction === '' ? '' : `.${fraction}`}`
}

function hints({ discovery, foundModels, settingsFile }: BannerFacts): string[] {
  if (foundModels) return ['What was found on this machine is sold at the price in the setting discovered_price.']
  if (settingsFile !== null || !discovery) return []
  return [
    'To serve a real model: npx tollgate models pull hf:OWNER/REPO/FILE.gguf, or start Ollama, vLLM, LM Studio or',
    'a llama.cpp server here, and start Tollgate again; or copy tollgate.example.yaml to tollgate.yaml.',
  ]
}

function keyHint({ dataDirectory }: BannerFacts): string[] {
  // A command typed later must reach the same data.
  const place = relative('', dataDirectory) === '.tollgate' ? '' : ` --data-dir '${dataDirectory}'`
  return [`Make a key with: npx tollgate keys create --org default --scope full_access${place}`]
}

function firstCall(url: string, key: string, models: readonly Model[]): string[][] {
  const model = models.find(({ status, modality }) => status === 'active' && modality === 'chat')
  const made = [
    'The organization "default" has $25.00 of credit and this admin key. It is shown this once; keep it:',
    '',
    `  ${key}`,
  ]
  if (model === undefined) return [made]
  const body = { model: model.id, messages: [{ role: 'user', content: 'What is a toll gate?' }] }
  const call = [
    `curl ${url}/chat/completions \\`,
    `  -H "Authorization: Bearer ${key}" \\`,
    '  -H "Content-Type: application/json" \\',
    `  -d '${JSON.stringify(body)}'`,
  ]
  return [made, ['Try it:'], call]
}

function hostInUrl(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1'
  return host.includes(':') ? `[${host}]` : host
}
