/** Streams that nobody reads: the memory that the gateway and the kernel hold for each. README.md. */

import { type AddressInfo, createServer, type Socket } from 'node:net'
import { tcpSocketsAt } from '../src/infra/tcpTable.ts'
import { head, piece } from '../test/rawServer.ts'
import { startServer } from '../test/server.ts'
import { postUnread } from '../test/unreadRequest.ts'
import { atLeastOne, readOptions } from './options.ts'
import { residentMegabytes } from './processes.ts'

const USAGE = 'usage: npx bun server/bench/unread.ts [--streams 100] [--tokens 4000] [--pace-ms 5]'
const SAMPLE_MS = 4_000

const { text } = readOptions(USAGE, { streams: '100', tokens: '4000', 'pace-ms': '5' }, [])
const streams = atLeastOne('streams', text['streams'])
const tokens = atLeastOne('tokens', text['tokens'])
const paceMs = atLeastOne('pace-ms', text['pace-ms'])

const TOKEN = piece(
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'word ' }, finish_reason: null }] })}\n\n`,
)
const asked = new Set<Socket>()
const provider = createServer((socket) => {
  socket.on('error', () => asked.delete(socket))
  socket.on('close', () => asked.delete(socket))
  socket.once('data', () => {
    socket.write(head())
    asked.add(socket)
  })
})
await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve))

const server = await startServer({
  settings: `
open_requests_per_key: ${streams}
rate_limit: { requests_per_second: 10000, burst: 10000 }
providers:
  bench: { dialect: openai, base_url: "http://127.0.0.1:${(provider.address() as AddressInfo).port}/v1" }
models:
  - id: svc/bench
    context_length: 1000000
    pricing: { input_per_1m_tokens_microcents: 1, output_per_1m_tokens_microcents: 1 }
    targets: [{ provider: bench, model: any }]
`,
})
const port = Number(new URL(server.url).port)
const body = { model: 'svc/bench', stream: true, messages: [{ role: 'user', content: 'Go on' }] }

const ownMegabytes = () => residentMegabytes([server.process.pid ?? 0])

/** The sending queues of the gateway's port in the kernel, in MB: no client's system has taken these bytes. */
const kernelMegabytes = () => tcpSocketsAt(port).reduce((sum, { unsentBytes }) => sum + unsentBytes, 0) / 1e6

/** Has each stream produce a token each `paceMs`; resolves when all have `tokens`. */
async function produce(onSample: (sent: number) => void): Promise<void> {
  const startedMs = performance.now()
  let sampledMs = startedMs
  for (let sent = 0; sent < tokens; sent += 1) {
    for (const socket of asked) socket.write(TOKEN)
    const dueMs = startedMs + (sent + 1) * paceMs
    const nowMs = performance.now()
    if (nowMs - sampledMs > SAMPLE_MS) {
      sampledMs = nowMs
      onSample(sent)
    }
    await Bun.sleep(Math.max(0, dueMs - nowMs))
  }
  onSample(tokens)
}

const sockets: Socket[] = []
try {
  const idle = ownMegabytes()
  console.log(`${streams} unread streams of ${tokens} tokens; the idle gateway has ${idle.toFixed(0)} MB\n`)
  console.log('| tokens a stream | gateway, KB a stream | kernel, KB a stream | streams that the provider has open |')
  console.log('|---|---|---|---|')
  for (let index = 0; index < streams; index += 1) {
    sockets.push(postUnread({ port, key: server.firstKey }, '/chat/completions', body))
  }
  while (asked.size < streams) await Bun.sleep(10)
  await produce((sent) => {
    const kilobytes = (megabytes: number) => ((megabytes * 1_000) / streams).toFixed(0)
    const row = [sent, kilobytes(ownMegabytes() - idle), kilobytes(kernelMegabytes()), asked.size]
    console.log(`| ${row.join(' | ')} |`)
  })
} finally {
  for (const socket of sockets) socket.destroy()
  provider.close()
  await server.kill()
  await server.remove()
}
process.exit(0)
