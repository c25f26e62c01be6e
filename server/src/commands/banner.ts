import { relative } from 'node:path'
import type { Model, Tier } from '../catalog/model.ts'
import { ECONOMY_SUFFIX } from '../catalog/model.ts'
import { MICROCENTS_PER_CENT } from '../lib/money.ts'
import type { FirstKey, SetUpLink } from './firstKey.ts'
import { priceCells } from './prices.ts'

export interface BannerFacts {
  readonly host: string
  readonly port: number
  readonly adminPort: number
  /** On the first start only. */
  readonly firstKey: FirstKey | null
  /** False while no organization has a key that may be used. */
  readonly hasKeys: boolean
  /** Until somebody has an account. */
  readonly setUpLink: SetUpLink | null
  readonly models: readonly Model[]
  /** True when local models are looked for at start; `foundModels`: some were found. */
  readonly discovery: boolean
  readonly foundModels: boolean
  /** Absolute. */
  readonly dataDirectory: string
  /** Null where there is none. */
  readonly settingsFile: string | null
  readonly json: boolean
}

/** Of a terminal that nobody has made wider. */
const WIDTH_MAX = 80

/** More lines would push the key out of sight. */
const MODELS_SHOWN_MAX = 20

/** Returns the text for a person, or with `--json` for a program, once calls are served. */
export function banner(facts: BannerFacts): string {
  const url = `${addressOf(facts.host, facts.port)}/v1`
  if (facts.json) {
    const { port, adminPort, firstKey } = facts
    const made = firstKey === null ? {} : 'key' in firstKey ? firstKey : { first_key_file: firstKey.file }
    const models = facts.models.map(({ id }) => id)
    return `${JSON.stringify({ url, port, admin_port: adminPort, ...made, ...setUpWire(facts.setUpLink), models })}\n`
  }
  const paragraphs = [
    [
      `Tollgate serves at ${url}, described at ${url}/openapi.json`,
      `Metrics at http://127.0.0.1:${facts.adminPort}/metrics, readiness at /ready there`,
    ],
    modelLines(facts.models),
    hints(facts),
    setUpLines(facts.setUpLink),
    ...(facts.firstKey === null ? keyHint(facts) : firstCall(url, facts.firstKey, facts.models)),
  ]
  return `${paragraphs
    .filter((lines) => lines.length > 0)
    .map((lines) => `${lines.join('\n')}\n`)
    .join('\n')}\n`
}

function setUpWire(link: SetUpLink | null) {
  if (link === null) return {}
  return 'url' in link ? { set_up_url: link.url } : { set_up_file: link.file }
}

function setUpLines(link: SetUpLink | null): string[] {
  if (link === null) return []
  const shown = 'url' in link
  return [
    shown
      ? 'Nobody has an account yet. Make the first one with this link, within a day:'
      : 'Nobody has an account yet. Make the first one, within a day, with the link in this file:',
    '',
    `  ${shown ? link.url : link.file}`,
  ]
}

function modelLines(models: readonly Model[]): string[] {
  if (models.length === 0) return ['No model is offered: add some to the settings file.']
  const rows = models.flatMap((model) => rowsOf(model))
  const shown = rows.slice(0, MODELS_SHOWN_MAX)
  const heading = { name: 'Cents per million tokens', input: 'in', output: 'out', notes: [] }
  const width = (read: (row: Row) => string) => Math.max(...[heading, ...shown].map((row) => read(row).length))
  const names = width(({ name }) => name)
  const inputs = width(({ input }) => input)
  const outputs = width(({ output }) => output)
  const lines = [heading, ...shown].map(({ name, input, output, notes }) => {
    const line = `  ${name.padEnd(names)}  ${input.padStart(inputs)}  ${output.padStart(outputs)}  `
    return `${line}${notesThatFit(notes, WIDTH_MAX - line.length)}`.trimEnd()
  })
  if (rows.length > shown.length) lines.push(`  and ${rows.length - shown.length} more: GET /v1/models lists them all`)
  return lines
}

interface Row {
  readonly name: string
  readonly input: string
  readonly output: string
  /** The most important first. */
  readonly notes: readonly string[]
}

function rowsOf({ id, modality, status, author, serverless, economy }: Model): Row[] {
  // The author's words behind a colon are for the catalog.
  const shared = [status === 'active' ? '' : status, author?.split(':')[0] ?? '']
  const row = (name: string, { price }: Tier, notes: readonly string[]): Row => {
    const { input, output } = priceCells(price, cents, (microcents) => `${cents(microcents)} cents`)
    // A price that is not by tokens stands beside the row: in the column it would push all others apart.
    const isByToken = modality !== 'image' && modality !== 'video'
    const all = (isByToken ? notes : [output, ...notes]).filter((note) => note !== '')
    return { name, input, output: modality === 'chat' ? output : '-', notes: all }
  }
  const first = row(id, serverless, shared)
  return economy === null ? [first] : [first, row(`${id}${ECONOMY_SUFFIX}`, economy, [])]
}

function notesThatFit(notes: readonly string[], most: number): string {
  const text = notes.join(', ')
  return notes.length === 0 || text.length <= most ? text : notesThatFit(notes.slice(0, -1), most)
}

/** Exact: a price under a cent must not look like nothing. */
function cents(microcents: bigint): string {
  const fraction = String(microcents % MICROCENTS_PER_CENT)
    .padStart(6, '0')
    .replace(/0+$/, '')
  return `${microcents / MICROCENTS_PER_CENT}${fraction === '' ? '' : `.${fraction}`}`
}

function hints({ discovery, foundModels, settingsFile }: BannerFacts): string[] {
  if (foundModels) return ['Models found on this machine cost the price in the setting discovered_price.']
  if (settingsFile !== null || !discovery) return []
  return [
    'To serve a real model: ./tollgate models pull hf:OWNER/REPO/FILE.gguf, or start Ollama, vLLM, LM Studio or',
    'a llama.cpp server here, and start Tollgate again; or copy tollgate.example.yaml to tollgate.yaml.',
  ]
}

function keyHint({ dataDirectory, hasKeys }: BannerFacts): string[][] {
  if (hasKeys) return []
  // A command typed later must reach the same data.
  const place = relative('', dataDirectory) === '.tollgate' ? '' : ` --data-dir ${quoted(dataDirectory)}`
  return [[`Make a key with: ./tollgate keys create --org default --scope full_access${place}`]]
}

function firstCall(url: string, firstKey: FirstKey, models: readonly Model[]): string[][] {
  const model = models.find(({ status, modality }) => status === 'active' && modality === 'chat')
  const isShown = 'key' in firstKey
  const made = [
    isShown
      ? 'The organization "default" has $25.00 of credit and this admin key. It is shown only once; keep it:'
      : 'The organization "default" has $25.00 of credit and an admin key, in this file. Keep the key, delete the file:',
    '',
    `  ${isShown ? firstKey.key : firstKey.file}`,
  ]
  if (model === undefined) return [made]
  const body = { model: model.id, messages: [{ role: 'user', content: 'What is a toll gate?' }] }
  const call = [
    `curl ${url}/chat/completions \\`,
    `  -H "Authorization: Bearer ${isShown ? firstKey.key : `$(cat ${quoted(firstKey.file)})`}" \\`,
    '  -H "Content-Type: application/json" \\',
    `  -d '${JSON.stringify(body)}'`,
  ]
  return [made, ['Try it:'], call]
}

/** For a shell. */
function quoted(path: string): string {
  return `'${path.replaceAll("'", "'\\''")}'`
}

/** Returns the address of a server that listens on a host and port, as it is reached on this machine. */
export function addressOf(host: string, port: number): string {
  return `http://${hostInUrl(host)}:${port}`
}

function hostInUrl(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1'
  return host.includes(':') ? `[${host}]` : host
}
