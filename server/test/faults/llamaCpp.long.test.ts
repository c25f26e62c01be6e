/**
 * A real llama.cpp behind the real gateway. It closes connections when it likes, also right after a streamed answer; no call
 * suffers by that, and every call is charged as llama.cpp itself has counted. The package comes by pip; where there is no Python
 * or no package registry, the tests are skipped and say why.
 */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../src/infra/clock.ts'
import type { Database } from '../../src/infra/postgres/database.ts'
import { makeCustomer, type TestKey } from '../customer.ts'
import { openDirectory } from '../dataDirectory.ts'
import { installLlamaCpp, type LlamaCounts, type LlamaCpp, startLlamaCpp } from '../llamaCpp.ts'
import { startServer, type TestServer } from '../server.ts'
import { writeTinyGguf } from '../tinyGguf.ts'
import { type ChargedCall, chargeOf, type LlamaOutcome, linesOf, makeCall, planCall } from './llamaCalls.ts'
import { seeded } from './seeded.ts'

const CALLS = 2_000
/** After so many calls comes a pause of around the 5 s after which llama.cpp closes an idle connection. */
const CALLS_BEFORE_PAUSE = 200
const [PAUSE_LEAST_MS, PAUSE_MOST_MS] = [4_500, 5_500]
const AT_ONCE = 24
const LIMIT_MS = 240_000

const installed = await installLlamaCpp()
if ('problem' in installed) console.warn(`skipped, llama.cpp can't be installed: ${installed.problem}`)
const withLlama = test.skipIf('problem' in installed)

let folder: string
let llama: LlamaCpp
let server: TestServer
let database: Database
/** Tokens of the chat template around one message, as llama.cpp counts them. */
let templateTokens: number

beforeAll(async () => {
  if ('problem' in installed) return
  folder = await mkdtemp(join(tmpdir(), 'tollgate-llama-'))
  llama = await startLlamaCpp(installed.bin, writeTinyGguf(join(folder, 'tiny.gguf')))
  templateTokens = await measureTemplate()
  server = await startServer({ settings: settingsFor(llama.url) })
  database = await openDirectory(server.dataDir)
}, LIMIT_MS)

afterAll(async () => {
  await database?.close()
  await server?.remove()
  await llama?.kill()
  if (folder !== undefined) await rm(folder, { recursive: true, force: true })
})

const settingsFor = (url: string) => `
rate_limit: { requests_per_second: 10000, burst: 100000 }
# A call whose caller has hung up keeps its place until its tokens are counted, and the first count starts a thread.
open_requests_per_key: 1000
providers:
  llama: { dialect: openai, base_url: "${url}" }
models:
  - id: svc/talk
    context_length: 512
    pricing: { input_per_1m_tokens_microcents: 1234567, cached_input_per_1m_tokens_microcents: 345678, output_per_1m_tokens_microcents: 7654321 }
    targets: [{ provider: llama, model: tiny }]
  - id: svc/words
    modality: embedding
    context_length: 512
    pricing: { input_per_1m_tokens_cents: 100 }
    targets: [{ provider: llama, model: tiny }]
`

/** Asks llama.cpp itself. */
async function measureTemplate(): Promise<number> {
  const words = 'measure'
  const body = JSON.stringify({ messages: [{ role: 'user', content: words }], max_tokens: 1 })
  const response = await fetch(`${llama.url}/chat/completions`, { method: 'POST', body })
  const answer = (await response.json()) as { readonly usage: { readonly prompt_tokens: number } }
  return answer.usage.prompt_tokens - words.length
}

const customer = () => makeCustomer(database, { cents: 1_000_000 })

interface Row extends ChargedCall {
  readonly cached: bigint
  readonly estimated: boolean
  readonly outcome: string
}

const chargesOf = ({ organizationId }: TestKey) =>
  database.query<Row>(
    `select model, prompt_tokens as prompt, cached_prompt_tokens as cached, completion_tokens as completion, estimated, outcome
       from named_charges where organization_id = $1::uuid`,
    [organizationId],
  )

const isFailed = ({ whole }: LlamaOutcome) => !whole
const tell = ({ call, status, end }: LlamaOutcome) => `${call.way} ${status}: ${end}`

/** That all calls have their answers, and are charged, each once, as llama.cpp has counted them. */
async function expectAllCharged(key: TestKey, outcomes: readonly LlamaOutcome[], before: LlamaCounts): Promise<void> {
  expect(outcomes.filter(isFailed).map(tell)).toEqual([])
  const rows = await chargesOf(key)
  expect(linesOf(rows)).toEqual(linesOf(outcomes.map(({ call }) => chargeOf(call, templateTokens))))
  expect(rows.filter(({ estimated, outcome }) => estimated || outcome !== 'completed')).toEqual([])
  const after = await llama.count()
  const sum = (name: keyof LlamaCounts) => rows.reduce((total, row) => total + row[name], 0n)
  const grown = (name: keyof LlamaCounts) => after[name] - before[name]
  expect([sum('prompt'), sum('cached'), sum('completion')]).toEqual([
    grown('prompt'),
    grown('cached'),
    grown('completion'),
  ])
}

function report(name: string, outcomes: readonly LlamaOutcome[]): void {
  const counts = new Map<string, number>()
  for (const { call, status, whole } of outcomes) {
    const kind = `${call.way} ${status ?? 'left'}${whole ? '' : ', broken off'}`
    counts.set(kind, (counts.get(kind) ?? 0) + 1)
  }
  const figures = [...counts].sort().map(([kind, count]) => `${kind}: ${count}`)
  console.log(`${name}: ${outcomes.length} calls; ${figures.join('; ')}`)
}

withLlama(
  'in sequence, with pauses around the time after which it closes idle connections: no call fails, each is charged as counted',
  async () => {
    const random = seeded(1)
    const key = await customer()
    const before = await llama.count()
    const outcomes: LlamaOutcome[] = []
    while (outcomes.length < CALLS) {
      outcomes.push(await makeCall(server.url, key, planCall(random)))
      const isPause = outcomes.length % CALLS_BEFORE_PAUSE === 0
      if (isPause) await Bun.sleep(random.between(PAUSE_LEAST_MS, PAUSE_MOST_MS))
    }
    report('in sequence', outcomes)
    await expectAllCharged(key, outcomes, before)
  },
  LIMIT_MS,
)

withLlama(
  '24 at once: no call fails, each is charged as counted',
  async () => {
    const random = seeded(2)
    const key = await customer()
    const before = await llama.count()
    const outcomes: LlamaOutcome[] = []
    let begun = 0
    const caller = async () => {
      while (begun++ < CALLS) outcomes.push(await makeCall(server.url, key, planCall(random)))
    }
    await Promise.all(Array.from({ length: AT_ONCE }, caller))
    report('24 at once', outcomes)
    await expectAllCharged(key, outcomes, before)
  },
  LIMIT_MS,
)

withLlama(
  'with callers who hang up, and a restart in between: calls fail only while it is down',
  async () => {
    const random = seeded(3)
    const [staying, leaving] = [await customer(), await customer()]
    const outcomes: LlamaOutcome[] = []
    const left: LlamaOutcome[] = []
    let begun = 0
    const caller = async (key: TestKey, into: LlamaOutcome[], leavesWithinMs: number | null) => {
      while (begun++ < CALLS) {
        const leaveAfterMs = leavesWithinMs === null ? undefined : random.between(0, leavesWithinMs)
        into.push(await makeCall(server.url, key, planCall(random), leaveAfterMs))
      }
    }
    const restart = async () => {
      while (begun < CALLS / 3) await Bun.sleep(10)
      const downMs = systemClock.monotonicMs()
      await llama.kill()
      await llama.start()
      return { downMs, upMs: systemClock.monotonicMs() }
    }
    const stayers = Array.from({ length: (AT_ONCE * 2) / 3 }, () => caller(staying, outcomes, null))
    const leavers = Array.from({ length: AT_ONCE / 3 }, () => caller(leaving, left, 100))
    const [{ downMs, upMs }] = await Promise.all([restart(), ...stayers, ...leavers])
    report('those who stayed', outcomes)
    report('those who hung up', left)

    const isAmidst = ({ startedMs, endedMs }: LlamaOutcome) => startedMs <= upMs && endedMs >= downMs
    const others = [...outcomes, ...left].filter((outcome) => !isAmidst(outcome))
    const isRefused = ({ status, whole, end }: LlamaOutcome) => !whole && status !== null && !/left/.test(end)
    expect(others.filter(isRefused).map(tell)).toEqual([])
    expect(outcomes.filter((outcome) => isAmidst(outcome) && outcome.status === 503)).not.toBeEmpty()
    expect(outcomes.filter(({ startedMs, whole }) => startedMs > upMs && whole)).not.toBeEmpty()

    // An answer that broke off in the midst may be charged for what was sent of it, and nothing else is.
    const charged = linesOf(await chargesOf(staying))
    const whole = linesOf(
      outcomes.filter((outcome) => !isFailed(outcome)).map(({ call }) => chargeOf(call, templateTokens)),
    )
    for (const line of whole) {
      expect(charged).toContain(line)
      charged.splice(charged.indexOf(line), 1)
    }
    const broken = outcomes.filter(({ status, whole: isWhole }) => status === 200 && !isWhole)
    expect(charged.length).toBeLessThanOrEqual(broken.length)
    expect(await server.command('ledger', 'verify')).toMatchObject({ agrees: true })
  },
  LIMIT_MS,
)
