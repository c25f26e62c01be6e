import { afterAll, expect, test } from 'bun:test'
import { fc } from '../../../test/properties.ts'
import { SILENCE } from '../../../test/silence.ts'
import { readVectors } from './read.ts'
import { createVectorWork } from './work.ts'
import { shortest, writeVectors } from './write.ts'

const work = createVectorWork(SILENCE)
afterAll(() => work.close())

const float32 = fc.float({ noNaN: true, noDefaultInfinity: true })
const around = { before: '{"data":', after: ',"usage":{"prompt_tokens":3}}' }

test('a number is written so that it names the same 32-bit float, and never longer than JSON would', () => {
  fc.assert(
    fc.property(float32, (value) => {
      const text = shortest(value)
      expect(Math.fround(JSON.parse(text)) + 0).toBe(value + 0)
      expect(text.length).toBeLessThanOrEqual(String(value).length)
    }),
    { numRuns: 2_000 },
  )
})

test('a written set is read back as it was, in either format, here and in the thread', async () => {
  for (const [count, dimensions] of [
    [1, 1],
    [3, 7],
    [40, 1_000],
  ] as const) {
    const values = Float32Array.from({ length: count * dimensions }, (_, index) => Math.sin(index) / (1 + (index % 13)))
    for (const format of ['float', 'base64'] as const) {
      const bytes = await work.write({ values: values.slice(), dimensions, format, ...around, maxBytes: 1 << 24 })
      const read = readVectors(new TextDecoder().decode(bytes), count)
      expect(read).toEqual({ values, dimensions, promptTokens: 3 })
      // Above a MiB it is read in the thread.
      const padded = new Uint8Array(bytes.length + (2 << 20)).fill(0x20)
      padded.set(bytes)
      expect(await work.read([padded], count)).toEqual(read)
    }
  }
})

test('more bytes than may be are refused, here and in the thread', async () => {
  for (const numbers of [100, 100_000]) {
    const text = { values: new Float32Array(numbers).fill(0.5), dimensions: 10, format: 'float', ...around } as const
    expect(work.write({ ...text, maxBytes: numbers })).rejects.toThrow()
  }
  expect(() =>
    writeVectors({ values: new Float32Array(4), dimensions: 2, format: 'base64', ...around, maxBytes: 80 }),
  ).toThrow()
})

test('faults are told from the thread in the same words', async () => {
  const bytes = new TextEncoder().encode(`{"data":[]}${' '.repeat(2 << 20)}`)
  expect(work.read([bytes], 1)).rejects.toThrow('it has 0 embeddings for 1 inputs')
})

test('after a large answer the next one finds the thread at work still', async () => {
  const read = await Promise.all(
    [1, 2, 3].map((value) => {
      const bytes = new TextEncoder().encode(`{"data":[{"embedding":[${value}]}]}${' '.repeat(2 << 20)}`)
      return work.read([bytes], 1)
    }),
  )
  expect(read.map(({ values }) => [...values])).toEqual([[1], [2], [3]])
})

test('images are picked out of an answer, here and in the thread: what is none is left out', async () => {
  const data = [{ b64_json: 'AAAA' }, { b64_json: 'no base64' }, {}, { b64_json: 'AAA' }, { b64_json: 'QUJD' }]
  for (const padding of ['', ' '.repeat(2 << 20)]) {
    const images = await work.readImages([new TextEncoder().encode(JSON.stringify({ data }) + padding)])
    expect(images.map((image) => new TextDecoder().decode(image))).toEqual(['AAAA', 'QUJD'])
    const none = work.readImages([new TextEncoder().encode(`{"data":[{}]}${padding}`)])
    expect(String(await none.catch((error: unknown) => error))).toContain('the answer has no image in base64')
  }
})
