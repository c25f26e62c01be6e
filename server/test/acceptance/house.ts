/** The real server with models of all three kinds behind it, as the clients of the acceptance tests meet it. */

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Database } from '../../src/infra/postgres/database.ts'
import { type CustomerOptions, makeCustomer, type TestKey } from '../customer.ts'
import { openDirectory } from '../dataDirectory.ts'
import { startServer, type TestServer } from '../server.ts'
import { writeTinyGguf } from '../tinyGguf.ts'

/** Micro-cents per million tokens: odd, so that a rounding at the wrong place shows. */
const PRICE = { input: 123_456_789_013n, cached: 45_678_901_237n, output: 234_567_890_129n }
/** The most tokens that every model takes for prompt and answer. */
export const CONTEXT_TOKENS = 2_048

/** A row of `charges`, as far as the tests look at it. */
export interface ChargeRow {
  readonly model: string
  readonly tier: string
  readonly prompt: bigint
  readonly cached: bigint
  readonly completion: bigint
  readonly estimated: boolean
  readonly outcome: string
  readonly cost: bigint
}

export interface House {
  readonly server: TestServer
  readonly database: Database
  customer(options?: CustomerOptions): Promise<TestKey>
  /** Oldest first. Throws where the accounts do not agree with the charges to the micro-cent. */
  charges(key: TestKey): Promise<ChargeRow[]>
  /** Asks the database until there are so many. */
  chargesOnce(key: TestKey, count: number): Promise<ChargeRow[]>
  /** Asks the separate provider until none of its endless streams is open any more. */
  providerIdle(): Promise<void>
  close(): Promise<void>
}

/** Returns the cost of a usage at {@link PRICE}, reckoned apart from the server's own code. Micro-cents. */
export function costOf(usage: { prompt: bigint; completion: bigint; cached?: bigint }): bigint {
  const cached = usage.cached ?? 0n
  const sum = (usage.prompt - cached) * PRICE.input + cached * PRICE.cached + usage.completion * PRICE.output
  return (sum + 999_999n) / 1_000_000n
}

/** GGUF models: `solo` answers one call at a time, `shared` three. */
const ENGINES = ['solo', 'shared'] as const

export interface HouseOptions {
  /** True when they are run too. */
  readonly gguf?: boolean
}

/** Starts it. Call `close` in `afterAll`. */
export async function openHouse({ gguf = false }: HouseOptions = {}): Promise<House> {
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-test-'))
  if (gguf) {
    for (const name of ENGINES) writeTinyGguf(join(folder, `${name}.gguf`), { contextTokens: CONTEXT_TOKENS })
  }
  const provider = await startProvider()
  const server = await startServer({ settings: settingsFor(provider.port, gguf ? folder : null) })
  const database = await openDirectory(server.dataDir)
  const house: House = {
    server,
    database,
    customer: (options) => makeCustomer(database, options),
    charges: (key) => readCharges(database, key),
    async chargesOnce(key, count) {
      for (let tries = 10_000; tries > 0; tries -= 1) {
        const [row] = await database.query<{ count: bigint }>(
          'select count(*) as count from charges where organization_id = $1',
          [key.organizationId],
        )
        if (row !== undefined && row.count >= BigInt(count)) return house.charges(key)
      }
      throw new Error(`there were never ${count} charges`)
    },
    async providerIdle() {
      for (let tries = 10_000; tries > 0; tries -= 1) {
        if ((await (await fetch(`http://127.0.0.1:${provider.port}/open`)).json()) === 0) return
      }
      throw new Error('a stream of the provider was never cancelled')
    },
    async close() {
      await database.close()
      await server.remove()
      provider.process.kill('SIGKILL')
      await rm(folder, { recursive: true, force: true })
    },
  }
  return house
}

async function startProvider(): Promise<{ process: ChildProcess; port: number }> {
  const program = join(import.meta.dirname, 'openaiServer.ts')
  // Its input is ours, and it ends with it: whatever becomes of a test, nothing is left behind.
  const child = spawn(process.execPath, [program], { stdio: ['pipe', 'pipe', 'inherit'] })
  const port = await new Promise<number>((resolve, reject) => {
    child.stdout.once('data', (data) => resolve(Number(String(data))))
    child.once('exit', (code) => reject(new Error(`the provider ended with ${code}`)))
  })
  return { process: child, port }
}

/** Charges and credits against what the accounts keep: the balance identity, for one organization. */
async function readCharges(database: Database, { organizationId }: TestKey): Promise<ChargeRow[]> {
  const [books] = await database.query<{ agreed: boolean }>(
    `select coalesce((select sum(amount_microcents) from ledger_entries where organization_id = $1), 0)
          - coalesce((select sum(cost_microcents) from charges where organization_id = $1), 0)
          = (select balance_microcents from accounts where organization_id = $1)
          - coalesce((select sum(spent_microcents) from unfolded_spend where organization_id = $1), 0) as agreed`,
    [organizationId],
  )
  if (books?.agreed !== true) throw new Error('the accounts do not agree with credits and charges')
  return database.query<ChargeRow>(
    `select model, tier, prompt_tokens as prompt, cached_prompt_tokens as cached, completion_tokens as completion,
            estimated, outcome, cost_microcents as cost
       from named_charges where organization_id = $1 order by admitted_at, id`,
    [organizationId],
  )
}

function settingsFor(providerPort: number, gguf: string | null): string {
  const price = [
    `input_per_1m_tokens_microcents: ${PRICE.input}`,
    `output_per_1m_tokens_microcents: ${PRICE.output}`,
    `cached_input_per_1m_tokens_microcents: ${PRICE.cached}`,
  ]
  const model = (id: string, provider: string, name: string, more = '') => `
  - id: svc/${id}
    aliases: [${id}]
    context_length: ${CONTEXT_TOKENS}
    pricing: { ${price.join(', ')} }
    targets: [{ provider: ${provider}, model: ${name} }]${more}`
  const engine = (name: string, sequences: number) => `
  ${name}: { dialect: gguf, file: ${gguf}/${name}.gguf, sequences: ${sequences}, context_tokens: ${CONTEXT_TOKENS} }`
  return `
open_requests_per_key: 4
providers:
  sandbox: { dialect: sandbox, first_token_ms: 0, tokens_per_second: unlimited }
  remote: { dialect: openai, base_url: "http://127.0.0.1:${providerPort}/v1" }${
    gguf === null ? '' : engine('solo', 1) + engine('shared', 3)
  }
models:
  - id: svc/vectors
    aliases: [vectors]
    modality: embedding
    context_length: ${CONTEXT_TOKENS}
    pricing: { input_per_1m_tokens_microcents: ${PRICE.input} }
    targets: [{ provider: sandbox }]
  - id: svc/pictures
    modality: image
    pricing: { per_image_cents: 4 }
    parameters: [{ name: n, type: int, max: 4 }, { name: size, type: enum, enum: ["256x256", "512x512"] }]
    targets: [{ provider: sandbox }]${
      gguf === null
        ? ''
        : `
  - id: svc/solo-vectors
    modality: embedding
    context_length: ${CONTEXT_TOKENS}
    pricing: { input_per_1m_tokens_microcents: ${PRICE.input} }
    targets: [{ provider: solo, model: tiny }]`
    }${model('sandbox', 'sandbox', 'sandbox', `\n    economy: { pricing: { ${price.slice(0, 2).join(', ')} }, targets: [{ provider: sandbox, model: sandbox }] }`)}
${['exact', 'silent-usage', 'busy-once', 'down', 'endless'].map((name) => model(name, 'remote', name)).join('')}${
  gguf === null ? '' : model('solo', 'solo', 'tiny') + model('shared', 'shared', 'tiny')
}
`
}
