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

test('many small pieces that nobody reads leave the socket unread, long before their bytes alone fill the room', () => {
  const told: boolean[] = []
  const line = { setPaused: (paused: boolean) => void told.push(paused), over: () => {}, expectEnd: () => {} }
  const exchange = new Exchange(line, post)
  exchange.take(Buffer.from('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'))
  let pieces = 0
  for (; told.length === 0; pieces += 1) exchange.take(Buffer.from('3\r\none\r\n'))
  expect(pieces).toBeLessThan(200)
  while (exchange.ready() !== undefined);
  expect(told).toEqual([true, false])
})

test('a reader that waits is called once by all that comes in one read, and by the end', () => {
  let called = 0
  const count = () => {
    called += 1
  }
  const line = { setPaused: () => {}, over: () => {}, expectEnd: () => {} }
  const exchange = new Exchange(line, post)
  const wait = () => exchange.whenReady(count)
  exchange.take(Buffer.from('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'))
  expect([wait(), called]).toEqual([true, 0])
  exchange.take(Buffer.from('3\r\none\r\n3\r\ntwo\r\n5\r\nth'))
  expect(called).toBe(1)
  const taken = [exchange.ready(), exchange.ready(), exchange.ready(), exchange.ready()]
  expect(taken.map((piece) => piece && Buffer.from(piece).toString())).toEqual(['one', 'two', 'th', undefined])
  expect(wait()).toBe(true)
  exchange.take(Buffer.from('ree\r\n0\r\n\r\n'))
  expect(called).toBe(2)
  expect(Buffer.from(exchange.ready() ?? []).toString()).toBe('ree')
  expect([exchange.ready(), wait(), called]).toEqual([undefined, false, 2])
})

test('a reader that waits is called when the exchange fails, is cancelled, or loses its connection', async () => {
  const line = { setPaused: () => {}, over: () => {}, expectEnd: () => {} }
  for (const end of [
    (exchange: Exchange) => exchange.fail(new Error('late')),
    (exchange: Exchange) => exchange.cancel(),
    (exchange: Exchange) => exchange.closed('ECONNRESET'),
    (exchange: Exchange) => exchange.closed(null),
    (exchange: Exchange) => exchange.take(Buffer.from('no length\r\n')),
  ]) {
    let called = 0
    const count = () => {
      called += 1
    }
    const exchange = new Exchange(line, post)
    exchange.take(Buffer.from('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'))
    expect(exchange.whenReady(count)).toBe(true)
    end(exchange)
    expect([called, exchange.whenReady(() => {})]).toEqual([1, false])
  }
})
