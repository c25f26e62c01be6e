/** The last part of a stream, whose writing may be a promise, and streams that go on without their reader. */

import { describe, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { StreamClient } from '../../test/streamClient.ts'
import { OwnSignal } from '../lib/callSignal.ts'
import { EventSender } from './eventStream.ts'

/** A stream of `a`, `b` and `end`. `end` is written when the test says so. */
function open(options: { readonly isReadToItsEnd?: boolean; readonly breaksAfter?: string } = {}) {
  const clock = new TurnedClock()
  const gone = new OwnSignal()
  const end = Promise.withResolvers<string>()
  const seen = { taken: [] as string[], written: [] as string[], cleanUps: 0, ends: 0 }
  async function* parts(): AsyncGenerator<string, void> {
    try {
      for (const part of ['a', 'b', 'end']) {
        seen.taken.push(part)
        yield part
        if (part === options.breaksAfter) throw new Error('broken')
      }
    } finally {
      seen.cleanUps += 1
    }
  }
  const toWire = (part: string) => {
    seen.written.push(part)
    return part === 'end' ? end.promise : `[${part}]`
  }
  const { isReadToItsEnd = false } = options
  const onEnd = () => {
    seen.ends += 1
  }
  const reader = new StreamClient(gone)
  void new EventSender(parts(), toWire, { clock, gone, onEnd, isReadToItsEnd }).begin(reader)
  return { clock, gone, end, seen, reader }
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

async function readPieces(reader: StreamClient): Promise<void> {
  expect(await reader.read()).toBe('[a]')
  expect(await reader.read()).toBe('[b]')
}

describe('a last part that is written in time', () => {
  test('leaves once its writing is done, and not before; the stream is kept open meanwhile', async () => {
    const { clock, end, seen, reader } = open()
    await readPieces(reader)
    const last = reader.read()
    await turn()
    expect(seen).toMatchObject({ written: ['a', 'b', 'end'], cleanUps: 0, ends: 0 })
    await clock.turn(15_000)
    expect(await last).toBe(': keep-alive\n\n')
    end.resolve('[end]')
    expect(await reader.read()).toBe('[end]')
    expect(await reader.read()).toBeNull()
    expect(seen).toMatchObject({ cleanUps: 1, ends: 1 })
    expect(clock.pending).toBe(0)
  })

  test('whose client leaves meanwhile: the source is cleaned up after the writing, and the stream has ended once', async () => {
    const { clock, gone, end, seen, reader } = open()
    await readPieces(reader)
    void reader.read().catch(() => {})
    await turn()
    gone.abort(null)
    await turn()
    expect(seen).toMatchObject({ cleanUps: 0, ends: 0 })
    end.resolve('[end]')
    await turn()
    expect(seen).toMatchObject({ written: ['a', 'b', 'end'], cleanUps: 1, ends: 1 })
    expect(clock.pending).toBe(0)
  })

  test.each([false, true])(
    'that can not be written breaks the stream, and its source is cleaned up (%p)',
    async (isReadToItsEnd) => {
      const { clock, end, seen, reader } = open({ isReadToItsEnd })
      await readPieces(reader)
      const last = reader.read()
      end.reject(new Error('not written'))
      await expect(last).rejects.toThrow('not written')
      expect(seen).toMatchObject({ written: ['a', 'b', 'end'], cleanUps: 1, ends: 1 })
      expect(clock.pending).toBe(0)
    },
  )
})

describe('a stream that is read to its end', () => {
  test.each([0, 1, 2])(
    'when its client leaves after %p pieces, every part is written once, in order',
    async (pieces) => {
      const { clock, gone, end, seen, reader } = open({ isReadToItsEnd: true })
      for (let piece = 0; piece < pieces; piece += 1) await reader.read()
      gone.abort(null)
      await turn()
      expect(seen).toMatchObject({ written: ['a', 'b', 'end'], cleanUps: 0, ends: 0 })
      end.resolve('[end]')
      await turn()
      expect(seen).toMatchObject({ taken: ['a', 'b', 'end'], written: ['a', 'b', 'end'], cleanUps: 1, ends: 1 })
      expect(clock.pending).toBe(0)
    },
  )

  test('when its client leaves while the last part is written: it is written once', async () => {
    const { gone, end, seen, reader } = open({ isReadToItsEnd: true })
    await readPieces(reader)
    void reader.read().catch(() => {})
    await turn()
    gone.abort(null)
    end.resolve('[end]')
    await turn()
    expect(seen).toMatchObject({ written: ['a', 'b', 'end'], cleanUps: 1, ends: 1 })
  })

  test('when its client has left before it began', async () => {
    const { gone, end, seen } = open({ isReadToItsEnd: true })
    gone.abort(null)
    end.resolve('[end]')
    await turn()
    expect(seen).toMatchObject({ written: ['a', 'b', 'end'], cleanUps: 1, ends: 1 })
  })

  test('whose source fails is not asked again', async () => {
    const { gone, seen } = open({ isReadToItsEnd: true, breaksAfter: 'a' })
    gone.abort(null)
    await turn()
    expect(seen).toMatchObject({ taken: ['a'], written: ['a'], cleanUps: 1, ends: 1 })
  })
})

test('without that, a stream whose client leaves takes nothing more', async () => {
  const { gone, seen, reader } = open()
  await reader.read()
  gone.abort(null)
  await turn()
  expect(seen.written).not.toContain('end')
  expect(seen).toMatchObject({ cleanUps: 1, ends: 1 })
})
