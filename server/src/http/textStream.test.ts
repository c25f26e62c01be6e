import { expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { HOUR_MS, MINUTE_MS } from '../lib/time.ts'
import { textStream } from './textStream.ts'

/** A stream of numbered pieces, and everything that happens to its source. */
function open({ pieces = 3, signal = new AbortController().signal, longestMs = HOUR_MS, failsAt = -1 } = {}) {
  const clock = new TurnedClock()
  const happened: string[] = []
  async function* source(): AsyncGenerator<string, void> {
    try {
      for (let piece = 0; piece < pieces; piece += 1) {
        if (piece === failsAt) throw new Error('the source is broken')
        happened.push(`made ${piece}`)
        yield `piece ${piece}`
      }
    } finally {
      happened.push('returned')
    }
  }
  const onEnd = (error: Error | null) => happened.push(`ended: ${error?.message ?? 'whole'}`)
  const reader = textStream(source(), { clock, signal, longestMs, onEnd }).getReader()
  const read = async () => {
    const { value, done } = await reader.read()
    return done ? null : new TextDecoder().decode(value)
  }
  return { clock, happened, reader, read }
}

test('a piece is made when the one before is taken, and the source ends with the stream', async () => {
  const { clock, happened, read } = open()
  await clock.turn(0)
  expect(happened).toEqual([])
  expect(await read()).toBe('piece 0')
  await clock.turn(MINUTE_MS - 1)
  expect(happened).toEqual(['made 0'])
  expect([await read(), await read(), await read()]).toEqual(['piece 1', 'piece 2', null])
  expect(happened).toEqual(['made 0', 'made 1', 'made 2', 'returned', 'ended: whole'])
  expect(clock.pending).toBe(0)
})

test('a client that takes nothing for a minute is cut off, also before it took anything', async () => {
  const begun = open()
  await begun.read()
  await begun.clock.turn(MINUTE_MS)
  await expect(begun.read()).rejects.toThrow('the client stopped reading')
  expect(begun.happened).toEqual(['made 0', 'returned', 'ended: the client stopped reading'])
  const idle = open()
  await idle.clock.turn(MINUTE_MS)
  await expect(idle.read()).rejects.toThrow('the client stopped reading')
  expect([idle.happened, begun.clock.pending, idle.clock.pending]).toEqual([
    ['ended: the client stopped reading'],
    0,
    0,
  ])
})

test('a stream is cut off at its deadline, however steadily it is read', async () => {
  const { clock, happened, read } = open({ pieces: 1_000, longestMs: 10 * MINUTE_MS })
  for (let piece = 0; piece < 20; piece += 1) {
    await read()
    await clock.turn(MINUTE_MS / 2)
  }
  await expect(read()).rejects.toThrow('it took too long')
  expect(happened.at(-1)).toBe('ended: it took too long')
})

test('a client that hangs up ends it, by its signal or by its stream', async () => {
  const gone = new AbortController()
  const signalled = open({ signal: gone.signal })
  await signalled.read()
  gone.abort()
  await signalled.clock.turn(0)
  expect(signalled.happened).toEqual(['made 0', 'returned', 'ended: the client hung up'])
  const cancelled = open()
  await cancelled.read()
  await cancelled.reader.cancel()
  await cancelled.clock.turn(0)
  expect(cancelled.happened).toEqual(['made 0', 'returned', 'ended: the client hung up'])
  expect(cancelled.clock.pending).toBe(0)
  const late = open({ signal: AbortSignal.abort() })
  await expect(late.read()).rejects.toThrow('the client hung up')
})

test('a source that fails breaks the stream off', async () => {
  const { clock, happened, read } = open({ failsAt: 1 })
  await read()
  await expect(read()).rejects.toThrow('the source is broken')
  expect([happened, clock.pending]).toEqual([['made 0', 'returned', 'ended: the source is broken'], 0])
})

test('one that nobody begins to read, as for HEAD, has ended and did not break off', async () => {
  const unread = open()
  await unread.reader.cancel()
  expect([unread.happened, unread.clock.pending]).toEqual([['ended: whole'], 0])
})
