/** A real Redis for tests, on a free port of the loopback address, with nothing on disk. */

import { type ChildProcess, spawn } from 'node:child_process'
import { systemClock } from '../src/infra/clock.ts'
import { connectRedis } from '../src/infra/redis/connection.ts'

const START_LIMIT_MS = 10_000

export interface TestRedis {
  readonly url: string
  /** SIGKILL: its connections are reset, and what it held is gone. */
  kill(): Promise<void>
  /** Starts it again on the same port, empty; resolves when it answers. */
  start(): Promise<void>
  /** SIGSTOP or SIGCONT: its connections stay, and nothing answers. */
  signal(name: 'SIGSTOP' | 'SIGCONT'): void
}

/** Starts one. Call `kill` in `afterAll`. */
export async function startRedis(): Promise<TestRedis> {
  const port = freePort()
  const url = `redis://127.0.0.1:${port}`
  let child: ChildProcess
  const redis: TestRedis = {
    url,
    async kill() {
      const ended = new Promise((resolve) => child.once('exit', resolve))
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGKILL')
      await ended
    },
    async start() {
      const words = ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']
      child = spawn('redis-server', words, { stdio: 'ignore' })
      await untilAnswering(url)
    },
    signal: (name) => void child.kill(name),
  }
  await redis.start()
  return redis
}

async function untilAnswering(url: string): Promise<void> {
  const giveUpAtMs = systemClock.monotonicMs() + START_LIMIT_MS
  for (;;) {
    try {
      const connection = await connectRedis(url, 1_000)
      await connection.send('PING', [])
      connection.close()
      return
    } catch (error) {
      if (systemClock.monotonicMs() > giveUpAtMs) throw error
      await Bun.sleep(10)
    }
  }
}

function freePort(): number {
  const listener = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  const { port } = listener
  listener.stop(true)
  return port
}
