import { afterAll, expect, test } from 'bun:test'
import { SILENCE } from '../../test/silence.ts'
import { countPrompt, createTokenCounter } from './tokenCounter.ts'
import { countText } from './tokens.ts'

/** Loading the tokenizer takes half a second of a free core, in each thread that is started. */
const LIMIT_MS = 60_000

const PROSE = 'A toll gate, as the word says, is where one pays before one passes. '
const counter = createTokenCounter(SILENCE)
afterAll(() => counter.close())

test(
  'texts are counted in another thread, each caller getting the count of its own',
  async () => {
    const counts = await Promise.all([counter.count([PROSE]), counter.count(['']), counter.count([PROSE, PROSE])])
    expect(counts).toEqual([countText(PROSE), 0, 2 * countText(PROSE)])
  },
  LIMIT_MS,
)

test(
  'a prompt has the tokens of its messages and some for their form',
  async () => {
    const message = { role: 'user', content: PROSE } as const
    expect(await countPrompt(counter, [message, message])).toBe(2 * (countText(PROSE) + 4))
  },
  LIMIT_MS,
)

test(
  'a counter that is closed answers what it still owes from the length, and counts again when asked again',
  async () => {
    const other = createTokenCounter(SILENCE)
    const owed = other.count(['x'.repeat(4_000)])
    await other.close()
    expect(await owed).toBe(1_000)
    expect(await other.count([PROSE])).toBe(countText(PROSE))
    await other.close()
  },
  LIMIT_MS,
)
