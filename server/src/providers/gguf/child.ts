/**
 * The process that runs one GGUF file: a crash of native code ends it and not the gateway. Its parent writes one line of
 * JSON to its standard input ({@link ChildSettings}: the bearer token is neither in the arguments nor in the environment,
 * where others could read it) and keeps that pipe open; when it closes, the child ends. On standard output comes one
 * line, {@link ChildReady}, once calls are served. Standard error is for the operator's log.
 */
import type { AddressInfo } from 'node:net'
import { createInterface } from 'node:readline'
import { systemClock } from '../../infra/clock.ts'
import type { EngineSettings } from './engine.ts'
import { ENGINE_MISSING, isEngineInstalled } from './install.ts'
import { createChatServer } from './serve.ts'

export interface ChildSettings extends EngineSettings {
  readonly bearer: string
}

export interface ChildReady {
  readonly ready: true
  readonly port: number
  readonly contextTokens: number
  readonly device: string
}

/** Longer lines of llama.cpp carry nothing that an operator needs. */
const LOG_LINE_CHARACTERS = 500

function log(line: string): void {
  const text = line.replaceAll(/\s+/g, ' ').trim().slice(0, LOG_LINE_CHARACTERS)
  if (text !== '') process.stderr.write(`${text}\n`)
}

function fail(reason: string): never {
  log(reason)
  process.exit(1)
}

async function run(settings: ChildSettings): Promise<void> {
  if (!(await isEngineInstalled())) fail(ENGINE_MISSING)
  // Only now: it can't be loaded where the engine is not installed.
  const { loadEngine } = await import('./engine.ts')
  const engine = await loadEngine(settings, log)
  const onStuck = () => fail('the engine does not let go of a cancelled call; ending to be started anew')
  const server = createChatServer({ engine, bearer: settings.bearer, clock: systemClock, log, onStuck })
  // A keep-alive connection of the gateway may be idle for long; it is never the child that closes it under a request.
  server.keepAliveTimeout = 0
  server.requestTimeout = 0
  server.listen(0, '127.0.0.1', () => {
    const { port } = server.address() as AddressInfo
    const ready: ChildReady = { ready: true, port, contextTokens: engine.contextTokens, device: engine.device }
    process.stdout.write(`${JSON.stringify(ready)}\n`)
  })
}

// The parent decides when this process ends, and needs it while it drains: a Ctrl-C at the terminal and a service manager's
// SIGTERM reach both at once.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})

const input = createInterface({ input: process.stdin })
input.once('line', (line) => {
  run(JSON.parse(line) as ChildSettings).catch((error: unknown) => {
    fail(`the model can't be loaded: ${error instanceof Error ? error.message : String(error)}`)
  })
})
// Not a clean shutdown: whoever could have read an answer is gone, and native code may be in the middle of a batch.
input.once('close', () => process.exit(0))
