/** A real server of llama.cpp, as a process of its own, from the Python package `xllamacpp`. */

import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { freePort } from './freePort.ts'
import { installPython } from './python.ts'

const PROGRAM = join(import.meta.dirname, 'llamaCpp.py')
const VERSION = '2026.10.11549'

export interface LlamaCpp {
  /** Ends in /v1. */
  readonly url: string
  /** Returns the server's counts since it was started. */
  count(): Promise<LlamaCounts>
  /** SIGKILL: its connections break. */
  kill(): Promise<void>
  /** Starts it again on the same port; resolves when it serves. */
  start(): Promise<void>
}

/** Tokens, of all requests together. */
export interface LlamaCounts {
  /** Those of the cache among them. */
  readonly prompt: bigint
  readonly cached: bigint
  readonly completion: bigint
}

/** Where the package is installed, or why it can't be. */
export const installLlamaCpp = () => installPython('xllamacpp', VERSION)

/** Starts one. Call `kill` in `afterAll`. */
export async function startLlamaCpp(bin: string, file: string): Promise<LlamaCpp> {
  const port = await freePort()
  let child: ChildProcess
  const llama: LlamaCpp = {
    url: `http://127.0.0.1:${port}/v1`,
    count: () => readCounts(port),
    async kill() {
      if (child.exitCode !== null || child.signalCode !== null) return
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGKILL')
      await ended
    },
    async start() {
      child = spawn(join(bin, 'python'), [PROGRAM, file, `${port}`], { stdio: ['pipe', 'pipe', 'pipe'] })
      await untilServing(child)
    },
  }
  await llama.start()
  return llama
}

/** Its log goes nowhere, but for its end where it does not come to serve. */
function untilServing(child: ChildProcess): Promise<void> {
  let errors = ''
  child.stderr?.on('data', (bytes) => {
    errors = `${errors}${bytes}`.slice(-2_000)
  })
  return new Promise((resolve, reject) => {
    child.stdout?.once('data', () => resolve())
    child.once('error', reject)
    child.once('exit', (code) => reject(new Error(`llama.cpp ended with ${code}:\n${errors}`)))
  })
}

async function readCounts(port: number): Promise<LlamaCounts> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  const figure = (name: string) => {
    const value = new RegExp(`^llamacpp:${name} (\\d+)$`, 'm').exec(text)?.[1]
    if (value === undefined) throw new Error(`llama.cpp tells no ${name}:\n${text}`)
    return BigInt(value)
  }
  const cached = figure('prompt_tokens_cached_total')
  return { prompt: figure('prompt_tokens_total') + cached, cached, completion: figure('tokens_predicted_total') }
}
