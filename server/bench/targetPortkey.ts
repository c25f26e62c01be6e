import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort, processTree } from './processes.ts'
import { type BenchContext, type Target, waitUntilServing } from './target.ts'

const RIVALS = join(import.meta.dir, 'rivals')
const SERVER = join(RIVALS, 'node_modules/@portkey-ai/gateway/build/start-server.js')

/**
 * Starts Portkey's gateway (npm, pinned in rivals/) on Node, in production mode, as it comes: it forwards the call to
 * the mock, streamed only where the client asked for that. It knows no keys of its own here and charges nothing.
 */
export async function startPortkey(context: BenchContext): Promise<Target> {
  if (!existsSync(SERVER)) {
    console.error("Installing Portkey's gateway into server/bench/rivals/ (once)…")
    await context.processes.run(['npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund'], 300, { cwd: RIVALS })
  }
  const folder = join(context.folder, 'portkey')
  await mkdir(folder, { recursive: true })
  const port = freePort()
  const command = ['node', '--import', join(RIVALS, 'loopback.mjs'), SERVER, `--port=${port}`, '--headless']
  const options = { logFile: join(folder, 'output.log'), env: { NODE_ENV: 'production' } }
  const child = await context.processes.start(command, options)
  const target: Target = {
    name: 'portkey',
    port,
    path: '/v1/chat/completions',
    headers: {
      'x-portkey-provider': 'openai',
      'x-portkey-custom-host': `http://127.0.0.1:${context.mockPort}/v1`,
    },
    authorizations: ['Bearer sk-bench'],
    modelName: (mockModel) => mockModel,
    gatewayPids: () => processTree(child.pid),
    databasePids: () => [],
  }
  await waitUntilServing(target, 'mock-1x0', 20_000)
  return target
}
