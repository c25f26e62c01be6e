/**
 * A gateway whose losses are known, its own process: it answers each call by itself and counts it in memory, and adds the
 * count to a file every so often. `bun forgetfulGateway.ts '{"port":…,"booksFile":…,"flushMs":…}'`; 0 writes each call
 * before it is answered. crashCheck.ts has it killed.
 */
import { appendFileSync } from 'node:fs'

interface Plan {
  readonly port: number
  readonly booksFile: string
  readonly flushMs: number
}

const { port, booksFile, flushMs } = JSON.parse(process.argv[2] ?? '') as Plan
const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
let unwritten = 0

function flush(): void {
  if (unwritten > 0) appendFileSync(booksFile, `${unwritten}\n`)
  unwritten = 0
}

if (flushMs > 0) setInterval(flush, flushMs)
Bun.serve({
  hostname: '127.0.0.1',
  port,
  async fetch(request) {
    if (request.method !== 'POST') return new Response('up')
    const { stream } = (await request.json()) as { stream?: boolean }
    unwritten++
    if (flushMs === 0) flush()
    if (stream !== true) return Response.json({ choices: [], usage })
    const events = `data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`
    return new Response(events, { headers: { 'Content-Type': 'text/event-stream' } })
  },
})
