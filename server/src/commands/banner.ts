import type { Discovered } from '../catalog/discovered.ts'
import type { Model } from '../catalog/model.ts'
import { displayedPrice, type PriceTable } from '../catalog/price.ts'

export interface BannerFacts {
  readonly host: string
  readonly port: number
  readonly adminPort: number
  /** The first key, on the first start only. */
  readonly key: string | null
  readonly models: readonly Model[]
  readonly discovered: readonly Discovered[]
  readonly discoveredPrice: PriceTable
  readonly json: boolean
}

/** What a person, or with `--json` a program, is told once calls are served. */
export function banner(facts: BannerFacts): string {
  const url = `http://${hostInUrl(facts.host)}:${facts.port}/v1`
  if (facts.json) {
    const { port, adminPort, key } = facts
    const models = facts.models.map(({ id }) => id)
    return `${JSON.stringify({ url, port, admin_port: adminPort, ...(key === null ? {} : { key }), models })}\n`
  }
  const lines = [`Tollgate serves at ${url}`, `Metrics and readiness at http://127.0.0.1:${facts.adminPort}`, '']
  lines.push('Models, in cents per million tokens in and out:')
  const width = Math.max(...facts.models.map(({ id }) => id.length))
  for (const model of facts.models) {
    const { inputCents, outputCents } = displayedPrice(model.serverless.price)
    const status = model.status === 'active' ? '' : `  (${model.status})`
    const note = model.author?.startsWith('Simulated') ? '  simulated' : ''
    lines.push(`  ${model.id.padEnd(width)}  ${inputCents} / ${outputCents}${status}${note}`)
  }
  if (facts.discovered.length > 0) {
    const { inputCents, outputCents } = displayedPrice(facts.discoveredPrice)
    const sources = facts.discovered.map((found) =>
      found.kind === 'http' ? `${found.product} at ${found.baseUrl}` : found.file,
    )
    lines.push('', `Found on this machine, at ${inputCents} / ${outputCents} (setting discovered_price):`)
    for (const source of sources) lines.push(`  ${source}`)
  }
  lines.push('')
  if (facts.key === null) lines.push('Make a key with: npx tollgate keys create --org default --scope full_access', '')
  else lines.push(...firstCall(url, facts.key, facts.models))
  return `${lines.join('\n')}\n`
}

function firstCall(url: string, key: string, models: readonly Model[]): string[] {
  const model = models.find(({ status, modality }) => status === 'active' && modality === 'chat')
  const body = { model: model?.id ?? 'MODEL', messages: [{ role: 'user', content: 'What is a toll gate?' }] }
  return [
    'The organization "default" has $25.00 of credit and this admin key. It is shown this once; keep it:',
    '',
    `  ${key}`,
    '',
    'Try it:',
    '',
    `curl ${url}/chat/completions -H "Authorization: Bearer ${key}" -H "Content-Type: application/json" -d '${JSON.stringify(body)}'`,
    '',
  ]
}

function hostInUrl(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1'
  return host.includes(':') ? `[${host}]` : host
}
