import { expect, test } from 'bun:test'
import { parseJson } from './body.ts'
import { createTurns } from './turns.ts'

const parse = async (text: string) => {
  const parsed = await parseJson(new TextEncoder().encode(text), createTurns())
  return parsed.ok ? parsed.value : parsed.refusal.message
}
/** Makes a body large, and changes nothing else of it. */
const PADDING = ' '.repeat(300_000)

test.each([['{"a":"\\"[[","b":"\\\\","c":["]"]}'], ['[]'], ['"\\\\\\""']])(
  '%s is what JSON makes of it, small and large',
  async (text) => {
    expect(await parse(text)).toEqual(JSON.parse(text))
    expect(await parse(text + PADDING)).toEqual(JSON.parse(text))
  },
)

test.each([
  ['', 'The request body is empty; send a JSON object.'],
  ['{"a":', 'The request body is not valid JSON.'],
  ['{"a', 'The request body is not valid JSON.'],
  ['['.repeat(65) + ']'.repeat(65), 'The request body nests deeper than 64 levels.'],
  [`[${'0,'.repeat(65_536)}0]`, 'The request body holds more than 65536 values; send it in parts.'],
])('%#: refused, small and large', async (text, message) => {
  expect(await parse(text)).toBe(message)
  expect(await parse(text + PADDING)).toBe(message)
})

test('brackets and commas within texts count for nothing', async () => {
  const text = JSON.stringify({ input: ['['.repeat(1_000), ','.repeat(100_000), '"['.repeat(1_000)] })
  expect(await parse(text)).toEqual(JSON.parse(text))
})

test('the steps of several large bodies are taken one by one, with a turn for others between any two', async () => {
  const turns = createTurns()
  const seen: string[] = []
  let isOver = false
  const others = (async () => {
    for (; !isOver; seen.push('others')) await new Promise((resolve) => setImmediate(resolve))
  })()
  await Promise.all([1, 2, 3].map((step) => turns.run(() => seen.push(`step ${step}`))))
  isOver = true
  await others
  const steps = seen.map((each, index) => (each.startsWith('step') ? index : -1)).filter((index) => index >= 0)
  expect(steps).toHaveLength(3)
  for (const [index, at] of steps.entries()) if (index > 0) expect(at - (steps[index - 1] ?? at)).toBeGreaterThan(1)
  expect(turns.run(() => JSON.parse('{'))).rejects.toThrow()
})
