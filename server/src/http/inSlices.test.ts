import { expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { OwnSignal } from '../lib/callSignal.ts'
import { MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import { inSlices, LEAST_BYTES_PER_MINUTE } from './inSlices.ts'

const SLICE_BYTES = 256 << 10

/** An answer of so many MiB on its way. */
function send(mebibytes: number) {
  const clock = new TurnedClock()
  const ends: number[] = []
  const clients: (string | undefined)[] = []
  const onEnd = (client?: 'stalled') => {
    ends.push(clock.monotonicMs())
    clients.push(client)
  }
  const cutOff = new OwnSignal()
  const stream = inSlices([new Uint8Array(mebibytes << 20)], clock, { onEnd, cutOff })
  return { clock, ends, clients, cutOff, reader: stream.getReader() }
}

test('a client that keeps the least rate gets all of the answer, however long it takes', async () => {
  const { clock, ends, clients, reader } = send(8)
  let bytes = 0
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    bytes += read.value.byteLength
    await clock.turn((MINUTE_MS * SLICE_BYTES) / LEAST_BYTES_PER_MINUTE - 1)
  }
  expect(bytes).toBe(8 << 20)
  expect(clients).toEqual([undefined])
  expect(ends).toEqual([clock.monotonicMs()])
  expect(ends[0]).toBeGreaterThan(7 * MINUTE_MS)
  expect(clock.pending).toBe(0)
})

test('a client that takes a little every 20 s is cut off after a minute, and one that stops later, a minute after', async () => {
  const slow = send(8)
  let reason: unknown = null
  for (let taken = 0; reason === null && taken < 32; taken += 1) {
    reason = await slow.reader.read().then(
      () => null,
      (error: unknown) => error,
    )
    await slow.clock.turn(20 * SECOND_MS)
  }
  expect(String(reason)).toContain('too slowly')
  expect([slow.ends, slow.clock.pending]).toEqual([[MINUTE_MS], 0])
  expect(slow.clients).toEqual(['stalled'])

  const stopped = send(8)
  for (let taken = 0; taken < 5; taken += 1) await stopped.reader.read()
  await stopped.clock.turn(MINUTE_MS - 1)
  expect(stopped.ends).toEqual([])
  await stopped.clock.turn(1)
  expect(stopped.ends).toEqual([MINUTE_MS])
})

test('the end of a client that leaves is told once', async () => {
  const { clock, ends, reader } = send(2)
  await reader.read()
  await reader.cancel()
  await clock.turn(MINUTE_MS)
  expect([ends, clock.pending]).toEqual([[0], 0])
})

test('an answer that is cut off ends at once, and its client sees it', async () => {
  const { ends, clients, cutOff, clock, reader } = send(2)
  await reader.read()
  cutOff.abort(new Error('the key has ended'))
  expect([ends, clients, clock.pending]).toEqual([[0], [undefined], 0])
  await expect(reader.read()).rejects.toThrow('cut off')
})
