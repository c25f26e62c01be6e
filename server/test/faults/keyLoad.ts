/** Gateway processes that share a database and Redis, and requests to them in turn at a fixed rate, whatever they do. */

import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { systemClock } from '../../src/infra/clock.ts'
import type { TestKey } from '../customer.ts'
import { type FreshDatabase, freshDatabase } from '../postgres.ts'
import { startRedis, type TestRedis } from '../redis.ts'
import { startServer, type TestServer } from '../server.ts'

const TICK_MS = 5

export interface Asked {
  readonly atMs: number
  readonly tookMs: number
  readonly status: number
}

export interface LimitedFleet {
  readonly fresh: FreshDatabase
  readonly redis: TestRedis
  /** Asks for the models, by the processes in turn and with the keys in turn, until `isOver`. */
  load(keys: readonly TestKey[], perSecond: number, isOver: () => boolean): Promise<Asked[]>
  close(): Promise<void>
}

export async function startLimitedFleet(processes: number): Promise<LimitedFleet> {
  const redis = await startRedis()
  const fresh = await freshDatabase()
  const environment = { DATABASE_URL: fresh.url, REDIS_URL: redis.url, TOLLGATE_DATA_KEY: 'ab'.repeat(32) }
  const servers: TestServer[] = []
  const agent = new Agent({ keepAlive: true, maxSockets: 64 })
  const close = async () => {
    agent.destroy()
    for (const server of servers) await server.remove()
    await fresh.drop()
    await redis.kill()
  }
  try {
    // The first applies the migrations.
    for (let number = 0; number < processes; number += 1) servers.push(await startServer({ environment }))
  } catch (error) {
    await close()
    throw error
  }
  return {
    fresh,
    redis,
    async load(keys, perSecond, isOver) {
      const asked: Promise<Asked>[] = []
      const startedAtMs = systemClock.monotonicMs()
      while (!isOver()) {
        const due = Math.floor(((systemClock.monotonicMs() - startedAtMs) * perSecond) / 1_000)
        while (asked.length < due) {
          const server = servers[asked.length % servers.length]
          const key = keys[Math.floor(asked.length / servers.length) % keys.length]
          if (server === undefined || key === undefined) throw new Error('there is nobody to ask')
          asked.push(ask(agent, server, key))
        }
        await Bun.sleep(TICK_MS)
      }
      return Promise.all(asked)
    },
    close,
  }
}

async function ask(agent: Agent, server: TestServer, { key }: TestKey): Promise<Asked> {
  const atMs = systemClock.monotonicMs()
  const sent = request(`${server.url}/models`, { agent, headers: { Authorization: `Bearer ${key}` } })
  sent.end()
  const [response] = await once(sent, 'response')
  response.resume()
  await once(response, 'end')
  return { atMs, tookMs: systemClock.monotonicMs() - atMs, status: response.statusCode }
}

/** True from so many milliseconds on. */
export function lasting(milliseconds: number): () => boolean {
  const endAtMs = systemClock.monotonicMs() + milliseconds
  return () => systemClock.monotonicMs() > endAtMs
}

/** The same, and `trouble` is made on the way there, once. */
export function troubled(milliseconds: number, troubleAfterMs: number, trouble: () => unknown): () => boolean {
  const isOver = lasting(milliseconds)
  const isTime = lasting(troubleAfterMs)
  let done = false
  return () => {
    if (!done && isTime()) {
      done = true
      void trouble()
    }
    return isOver()
  }
}

/** Returns how many answers had each status. */
export function statuses(asked: readonly Asked[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { status } of asked) counts[status] = (counts[status] ?? 0) + 1
  return counts
}
