/** Two whole gateways on one PostgreSQL that take deposits, die by SIGKILL and come back. Each asks nodes and a screening of its own. */

import { type FreshDatabase, freshDatabase } from '../postgres.ts'
import { startServer, type TestServer } from '../server.ts'
import type { TestChain } from './anvil.ts'
import { TEST_XPUB } from './depositHouse.ts'
import { isRejectedAmount, type KillMoment } from './killPlan.ts'
import { openRpcProxy, type RpcProxy } from './rpcProxy.ts'
import type { TestToken } from './token.ts'

/** However little is asked, such as when both are dead: a step waits no longer. */
const QUESTIONS_MOST_MS = 2_000

export type KilledTokens = Readonly<Record<'usdc' | 'usdt', TestToken>>

interface Half {
  readonly number: number
  readonly nodes: readonly RpcProxy[]
  server: TestServer
  /** Ends when it serves again; null: it serves, or is dead. */
  coming: Promise<void> | null
  /** It dies at some send by itself. */
  isTraced: boolean
}

type QuestionMoment = Extract<KillMoment, { kind: 'question' }>

const settingsOf = ({ usdc, usdt }: KilledTokens) => `
rate_limit: { requests_per_second: 10000, burst: 100000 }
deposits:
  xpub: ${TEST_XPUB}
  min_deposit_cents: 500
  open_deposits: 1000
  deposits_per_day: 100000
  screening: { url_env: SCREENING_URL }
  chains:
    ethereum: { rpc_url_envs: [NODE_ONE, NODE_TWO], poll_seconds: 1, tokens: { usdc: '${usdc.address}', usdt: '${usdt.address}' } }
`

/** Starts both. The first applies the migrations. */
export async function startKilledGateways(chain: TestChain, tokens: KilledTokens): Promise<KilledGateways> {
  const pair = new KilledGateways(await freshDatabase(), settingsOf(tokens))
  await pair.begin(chain)
  return pair
}

/** The pair, and the far ends by which it is seen. */
export class KilledGateways {
  readonly fresh: FreshDatabase
  /** How often a gateway was killed so far. */
  kills = 0
  /** True when the screening answers 503. */
  isHookAway = false
  private readonly settings: string
  private readonly hook: ReturnType<typeof Bun.serve>
  private readonly halves: Half[] = []
  private armed: { readonly moment: QuestionMoment; left: number } | null = null
  private dying: Promise<unknown> = Promise.resolve()
  private waiting: { left: number; readonly wake: () => void }[] = []

  constructor(fresh: FreshDatabase, settings: string) {
    this.fresh = fresh
    this.settings = settings
    this.hook = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: (request) => this.screen(request) })
  }

  /** Opens the far ends of both, and starts them one after the other. */
  async begin(chain: TestChain): Promise<void> {
    for (const number of [0, 1]) {
      const nodes = [openRpcProxy(chain.url), openRpcProxy(chain.url)]
      for (const node of nodes) {
        node.falsify = ({ method }, result) => {
          this.countQuestion()
          if (tellsOfPayments(method, result)) this.countToKill('node', number)
          return result
        }
      }
      const server = await this.start(number, nodes, {})
      this.halves.push({ number, nodes, server, coming: null, isTraced: false })
    }
  }

  private async start(
    number: number,
    nodes: readonly RpcProxy[],
    options: { dataDir?: string; wrapper?: string[] },
  ): Promise<TestServer> {
    const environment = {
      DATABASE_URL: this.fresh.url,
      TOLLGATE_DATA_KEY: 'ef'.repeat(32),
      NODE_ONE: nodes[0]?.url ?? '',
      NODE_TWO: nodes[1]?.url ?? '',
      SCREENING_URL: `http://127.0.0.1:${this.hook.port}/${number}`,
    }
    const server = await startServer({ settings: this.settings, environment, ...options })
    server.process.once('exit', (_, signal) => {
      if (signal === 'SIGKILL') this.kills += 1
    })
    return server
  }

  /** The base URLs of those that serve, the one with this number first. */
  urls(first: number): string[] {
    const serving = this.halves.filter((half) => half.coming === null && !isDead(half))
    return serving.toSorted((one) => (one.number === first ? -1 : 1)).map(({ server }) => server.url)
  }

  /** Has the first or second node of each gateway answer, or not. */
  setNode(node: number, isUp: boolean): void {
    for (const { nodes } of this.halves) {
      const proxy = nodes[node]
      if (proxy !== undefined) proxy.isUp = isUp
    }
  }

  /** Has gateways killed at a moment. */
  async arm(moment: KillMoment): Promise<void> {
    if (moment.kind === 'question') {
      this.armed = { moment, left: moment.nth }
      return
    }
    const half = this.halves[moment.gateway]
    if (half === undefined) return
    await half.coming
    await half.server.kill()
    this.comeBack(half, moment.nth)
  }

  /** Kills whoever was to die and did not yet, and begins to start all that are dead. */
  async restart(): Promise<void> {
    if (this.armed !== null) this.strike(this.armed.moment, 0)
    await this.dying
    for (const half of this.halves) {
      await half.coming
      if (half.isTraced && !isDead(half)) await half.server.kill()
      if (isDead(half)) this.comeBack(half, null)
    }
  }

  /** Resolves when both serve, and nobody is to die any more. */
  async allServe(): Promise<void> {
    await this.restart()
    for (const { coming } of this.halves) await coming
  }

  /** Resolves after so many further questions to nodes, or some time without. */
  async questions(count: number): Promise<void> {
    if (count === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.waiting.push({ left: count, wake: resolve })
    const timer = setTimeout(resolve, QUESTIONS_MOST_MS)
    await promise
    clearTimeout(timer)
  }

  /** Ends both, and what they stood on. */
  async close(): Promise<void> {
    for (const { server, nodes, coming } of this.halves) {
      await coming?.catch(() => {})
      await server.remove()
      for (const node of nodes) node.close()
    }
    this.hook.stop(true)
    await this.fresh.drop()
  }

  private comeBack(half: Half, diesAtSend: number | null): void {
    const { dataDir } = half.server
    const begin = async () => {
      half.server = await this.start(half.number, half.nodes, {
        dataDir,
        ...(diesAtSend === null ? {} : { wrapper: killedAtSend(diesAtSend) }),
      }).catch((error) => {
        // It died before it served: so be it.
        if (diesAtSend === null || !String(error).includes('before it served')) throw error
        this.kills += 1
        return this.start(half.number, half.nodes, { dataDir })
      })
      half.coming = null
    }
    half.isTraced = diesAtSend !== null
    half.coming = begin()
    // Ends the wait of a caller that asked for it.
    half.coming.catch(() => {})
  }

  private async screen(request: Request): Promise<Response> {
    const { amount } = (await request.json()) as { amount: string }
    this.countToKill('hook', Number(new URL(request.url).pathname.slice(1)))
    if (this.isHookAway) return new Response('', { status: 503 })
    const [whole = '', parts = ''] = amount.split('.')
    return Response.json({ verdict: isRejectedAmount(BigInt(`${whole}${parts.padEnd(6, '0')}`)) ? 'reject' : 'pass' })
  }

  private countQuestion(): void {
    for (const each of this.waiting) each.left -= 1
    for (const { left, wake } of this.waiting) if (left <= 0) wake()
    this.waiting = this.waiting.filter(({ left }) => left > 0)
  }

  private countToKill(to: 'node' | 'hook', asker: number): void {
    if (this.armed === null || this.armed.moment.to !== to) return
    this.armed.left -= 1
    if (this.armed.left <= 0) this.strike(this.armed.moment, asker)
  }

  private strike({ victim, thenTurns }: QuestionMoment, asker: number): void {
    this.armed = null
    const victims = this.halves.filter(({ number }) => victim === 'both' || (number === asker) === (victim === 'asker'))
    const kill = () => Promise.all(victims.map(async (half) => isDead(half) || half.server.kill()))
    this.dying = thenTurns === 0 ? kill() : turns(thenTurns).then(kill)
  }
}

function tellsOfPayments(method: string, result: unknown): boolean {
  return (
    method === 'eth_getTransactionReceipt' || (method === 'eth_getLogs' && Array.isArray(result) && result.length > 0)
  )
}

function isDead({ server: { process } }: Half): boolean {
  return process.exitCode !== null || process.signalCode !== null
}

/** -D: the gateway itself is our child. Not --seccomp-bpf: with it strace 6.1 injects no signal. */
function killedAtSend(nth: number): string[] {
  const calls = 'sendto,sendmsg,writev'
  const inject = `inject=${calls}:signal=SIGKILL:when=${nth}`
  return ['strace', '-D', '-f', '-o', '/dev/null', '-e', `trace=${calls}`, '-e', inject]
}

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}
