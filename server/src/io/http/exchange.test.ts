import { expect, test } from 'bun:test'
import { Exchange } from './exchange.ts'

const post = { headers: {}, body: '', signal: new AbortController().signal, maxBytes: 1 << 20, connectMs: 1 }

test('a large body whose end comes in the read that fills the room for it leaves the socket read', async () => {
  const told: string[] = []
  const exchange = new Exchange(
    {
      setPaused: (paused) => void told.push(paused ? 'paused' : 'read'),
      over: (reusable) => void told.push(reusable ? 'free' : 'closed'),
      expectEnd: () => {},
    },
    post,
  )
  const body = 'x'.repeat(300_000)
  exchange.take(Buffer.from(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`))
  expect(told).toEqual(['paused', 'read', 'free'])
  expect((await exchange.read())?.byteLength).toBe(body.length)
  expect(await exchange.read()).toBeNull()
  expect(told).toEqual(['paused', 'read', 'free'])
})
