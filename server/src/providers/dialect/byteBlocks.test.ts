import { expect, test } from 'bun:test'
import { fc } from '../../../test/properties.ts'
import { ByteBlocks } from './byteBlocks.ts'

const joined = (blocks: ByteBlocks) => Buffer.concat(blocks.take())

test('pieces of any size are the same bytes, in buffers that nothing else uses', () => {
  const sizes = fc.array(fc.oneof(fc.integer({ min: 0, max: 9 }), fc.integer({ min: 0, max: 100_000 })))
  fc.assert(
    fc.property(sizes, (lengths) => {
      const pieces = lengths.map((length, index) => Buffer.alloc(length, index + 1))
      const blocks = new ByteBlocks()
      for (const piece of pieces) blocks.add(piece)
      const whole = Buffer.concat(pieces)
      expect(blocks.byteLength).toBe(whole.byteLength)
      const taken = blocks.take()
      expect(Buffer.concat(taken).equals(whole)).toBe(true)
      const buffers = new Set<unknown>([...taken, ...pieces].map(({ buffer }) => buffer))
      expect(buffers.size).toBe(taken.length + new Set(pieces.map(({ buffer }) => buffer)).size)
    }),
    { numRuns: 100 },
  )
})

test('a piece may be written over once it is in', () => {
  const piece = Buffer.from('toll')
  const blocks = new ByteBlocks()
  blocks.add(piece.subarray(0, 2))
  blocks.add(piece.subarray(2))
  piece.fill(0)
  expect(joined(blocks).toString()).toBe('toll')
})

test('a mebibyte in pieces of one byte is in some twenty blocks, which take 64 KiB more at most', () => {
  const blocks = new ByteBlocks()
  for (let count = 0; count < (1 << 20) + 1; count += 1) blocks.add(Buffer.from('a'))
  const taken = blocks.take()
  expect(taken.length).toBeLessThan(30)
  const held = taken.reduce((sum, { buffer }) => sum + buffer.byteLength, 0)
  expect(held).toBeLessThanOrEqual((1 << 20) + 1 + (64 << 10))
})

test('an answer of one piece is in one block of its size', () => {
  const blocks = new ByteBlocks()
  blocks.add(Buffer.from('{}'))
  expect(blocks.take().map(({ buffer }) => buffer.byteLength)).toEqual([2])
})

test('nothing is no block', () => {
  expect(new ByteBlocks().take()).toEqual([])
})
