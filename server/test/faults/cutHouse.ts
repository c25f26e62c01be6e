/** Real servers behind a network of their own to one PostgreSQL, which can be cut, with clients that call all the time. */

import { spawn } from 'node:child_process'
import { join } from 'node:path'
import type { TestKey } from '../customer.ts'
import { startServer, type TestServer } from '../server.ts'
import { type SilentProxy, startSilentProxy, throughProxy } from '../silentProxy.ts'

const SETTINGS = `
open_requests_per_key: 1000
rate_limit: { requests_per_second: 10000, burst: 1000000 }
providers:
  sandbox: { dialect: sandbox, first_token_ms: 20, tokens_per_second: unlimited }
models:
  - id: svc/words
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 1000, output_per_1m_tokens_cents: 2000 }
    targets: [{ provider: sandbox, model: sandbox }]
`
const COMMAND = join(import.meta.dirname, '../../../tollgate')
const DATA_KEY = 'ef'.repeat(32)
/** A server that is refused says so long before; this only ends a test that hangs. */
const REFUSAL_LIMIT_MS = 30_000

/** One call: when it was sent and answered, on the clock of the test, and the status; 0 where the connection broke. */
export interface CutCall {
  readonly server: number
  readonly sentMs: number
  answeredMs: number | null
  status: number
}

export interface CutServers {
  readonly proxy: SilentProxy
  readonly servers: TestServer[]
  readonly calls: CutCall[]
  /** Starts a server more, on the data directory of an earlier one or on its own. */
  start(dataDir?: string): Promise<TestServer>
  /** Starts the command on a data directory that another server has; resolves to its end and how long that took. */
  refused(dataDir: string): Promise<{ code: number | null; errors: string; tookMs: number }>
  /** Calls every server all the time, with some clients each, until {@link hush}. */
  load(key: TestKey, clients: number): void
  /** Sends no more calls; resolves when the last is answered. */
  hush(): Promise<void>
  close(): Promise<void>
}

/** With `standbyUrl` the servers are given both hosts, each behind a network of its own. */
export async function openCutServers(databaseUrl: string, count: number, standbyUrl?: string): Promise<CutServers> {
  const proxy = await startSilentProxy(databaseUrl)
  const other = standbyUrl === undefined ? null : await startSilentProxy(standbyUrl)
  const one = throughProxy(databaseUrl, proxy)
  const url =
    other === null
      ? one
      : `${one.replace(`:${proxy.port}/`, `:${proxy.port},127.0.0.1:${other.port}/`)}?target_session_attrs=read-write`
  const environment = { DATABASE_URL: url, TOLLGATE_DATA_KEY: DATA_KEY }
  const servers: TestServer[] = []
  const calls: CutCall[] = []
  const clients: Promise<void>[] = []
  let isOver = false
  const start = async (dataDir?: string) => {
    const server = await startServer({
      settings: SETTINGS,
      environment,
      ...(dataDir === undefined ? {} : { dataDir }),
    })
    servers.push(server)
    return server
  }
  for (let number = 0; number < count; number += 1) await start()
  return {
    proxy,
    servers,
    calls,
    start,
    async refused(dataDir) {
      const startedMs = performance.now()
      const args = ['serve', '--port', '0', '--admin-port', '0', '--data-dir', dataDir]
      const child = spawn(COMMAND, args, {
        stdio: ['ignore', 'ignore', 'pipe'],
        env: { ...process.env, TOLLGATE_DISCOVERY: 'off', ...environment },
        timeout: REFUSAL_LIMIT_MS,
      })
      let errors = ''
      child.stderr.on('data', (data) => {
        errors += data
      })
      const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
      return { code, errors, tookMs: performance.now() - startedMs }
    },
    load(key, each) {
      isOver = false
      const client = async (server: number, isKeyed: boolean) => {
        while (!isOver) {
          const call: CutCall = { server, sentMs: performance.now(), answeredMs: null, status: 0 }
          calls.push(call)
          call.status = await callOnce(servers[server]?.url ?? '', key, isKeyed)
          call.answeredMs = performance.now()
          // A refusal comes at once.
          await new Promise((resolve) => setTimeout(resolve, 50))
        }
      }
      for (let server = 0; server < count; server += 1) {
        for (let number = 0; number < each; number += 1) clients.push(client(server, number % 2 === 1))
      }
    },
    async hush() {
      isOver = true
      await Promise.all(clients)
    },
    async close() {
      for (const server of servers) await server.remove()
      proxy.stop()
      other?.stop()
    },
  }
}

async function callOnce(url: string, key: TestKey, isKeyed: boolean): Promise<number> {
  try {
    const response = await fetch(`${url}/chat/completions`, {
      method: 'POST',
      headers: {
        Authorization: `Bearer ${key.key}`,
        ...(isKeyed ? { 'Idempotency-Key': crypto.randomUUID() } : {}),
      },
      body: JSON.stringify({ model: 'svc/words', max_tokens: 5, messages: [{ role: 'user', content: 'x' }] }),
    })
    await response.arrayBuffer()
    return response.status
  } catch {
    return 0
  }
}
