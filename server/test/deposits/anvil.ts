/** A real chain of the EVM for tests: anvil, on a free port of the loopback address, that mines when it is told to. */

import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../src/infra/clock.ts'
import { freePort } from '../freePort.ts'

const START_LIMIT_MS = 30_000

export interface TestChain {
  readonly url: string
  /** Asks the node; throws with its words. */
  ask<T = unknown>(method: string, ...parameters: readonly unknown[]): Promise<T>
  /** Mines blocks without transactions. */
  mine(blocks: number): Promise<void>
  /** Takes the newest blocks back and mines as many others without their transactions. */
  reorganize(blocks: number): Promise<void>
  close(): Promise<void>
}

/** Starts one: a block is final two blocks after it was mined. Call `close` in `afterAll`. */
export async function openTestChain(chainId: number): Promise<TestChain> {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  if (!isAnvilThere()) throw new Error('there is no anvil on this platform: run the tests of deposits on Linux, x64')
  const words = ['--port', `${port}`, '--chain-id', `${chainId}`, '--slots-in-an-epoch', '1', '--no-mining', '--silent']
  // It keeps old states below its home, by gigabytes, and leaves them there when it is killed.
  const home = await mkdtemp(join(tmpdir(), 'tollgate-anvil-'))
  const child = spawn(PROGRAM, words, { stdio: 'ignore', env: { ...process.env, HOME: home } })
  const ask: TestChain['ask'] = async (method, ...parameters) => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: parameters })
    const response = await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body })
    const { result, error } = (await response.json()) as { result: never; error?: { message: string } }
    if (error !== undefined) throw new Error(`${method}: ${error.message}`)
    return result
  }
  await untilAnswering(ask)
  return {
    url,
    ask,
    mine: async (blocks) => void (await ask('anvil_mine', `0x${blocks.toString(16)}`)),
    reorganize: async (blocks) => void (await ask('anvil_reorg', blocks, [])),
    async close() {
      await end(child)
      await rm(home, { recursive: true, force: true })
    },
  }
}

/** npm has anvil for Linux on x64 alone. */
const PROGRAM = join(import.meta.dirname, '../node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil')

/** Returns whether a chain of tests can be had on this machine. */
export function isAnvilThere(): boolean {
  return existsSync(PROGRAM)
}

async function untilAnswering(ask: TestChain['ask']): Promise<void> {
  const giveUpAtMs = systemClock.monotonicMs() + START_LIMIT_MS
  for (;;) {
    try {
      await ask('eth_chainId')
      return
    } catch (error) {
      if (systemClock.monotonicMs() > giveUpAtMs) throw error
      await Bun.sleep(20)
    }
  }
}

async function end(child: ChildProcess): Promise<void> {
  const ended = new Promise((resolve) => child.once('exit', resolve))
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGKILL')
  await ended
}
