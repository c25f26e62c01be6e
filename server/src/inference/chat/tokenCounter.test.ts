import { afterAll, expect, test } from 'bun:test'
import { seeded } from '../../../test/faults/seeded.ts'
import { SILENCE } from '../../../test/silence.ts'
import { countPrompt, createTokenCounter } from './tokenCounter.ts'
import { countText } from './tokens.ts'
import { usageOf } from './usage.ts'

/** Loading the tokenizer takes half a second of a free core, in each thread that is started. */
const LIMIT_MS = 60_000

const PROSE = 'A toll gate, as the word says, is where one pays before one passes. '
/** Words of letters without order, of which the tokenizer takes in some half a megabyte a second. */
function longWords(count: number): string {
  const random = seeded(1)
  const word = () => Array.from({ length: 127 }, () => String.fromCharCode(random.between(97, 122))).join('')
  return Array.from({ length: count }, word).join(' ')
}

const counter = createTokenCounter(SILENCE)
afterAll(() => counter.close())

test(
  'texts are counted in another thread, each caller getting the count of its own',
  async () => {
    const counts = await Promise.all([[PROSE], [''], [PROSE, '', PROSE]].map((texts) => counter.count(texts, 'a')))
    expect(counts).toEqual([countText(PROSE), 0, 2 * countText(PROSE)])
  },
  LIMIT_MS,
)

test.each([
  ['prose', PROSE.repeat(2_000)],
  ['long words', longWords(700)],
  ['surrogate pairs, by every cut', `a${'\u{20bb7}'.repeat(40_000)}`],
])(
  'a long text of %s has the same count in pieces as in one',
  async (_, text) => {
    expect(await counter.count([text, PROSE, text], 'a')).toBe(2 * countText(text) + countText(PROSE))
  },
  LIMIT_MS,
)

test(
  'a long text of one organization does not keep the count of another waiting until its end',
  async () => {
    const ended: string[] = []
    const slow = counter.count([longWords(1_500)], 'a').then(() => ended.push('slow'))
    const short = counter.count([PROSE], 'b').then(() => ended.push('short'))
    await Promise.all([slow, short])
    expect(ended).toEqual(['short', 'slow'])
  },
  LIMIT_MS,
)

test(
  'a prompt is counted no further than to the most that it is charged for',
  async () => {
    const content = longWords(700)
    const prompt = { messages: [{ role: 'user', content } as const], bytes: content.length }
    const generated = { text: PROSE, reasoning: '', bytes: PROSE.length, usage: null, isUsageBehind: false }
    const { usage } = await usageOf(counter, 'a', { prompt, promptTokens: 1_000, contextTokens: 100_000 }, generated)
    expect(usage.completionTokens).toBe(countText(PROSE))
    expect(usage.promptTokens).toBeGreaterThanOrEqual(1_000)
    expect(usage.promptTokens).toBeLessThan(countText(content) * 0.8)
  },
  LIMIT_MS,
)

test(
  'a prompt that is counted has no more tokens than the context has beside the output that came',
  async () => {
    const message = { role: 'user', content: PROSE } as const
    const prompt = { messages: Array.from({ length: 100 }, () => message), bytes: 100 * PROSE.length }
    const output = countText(PROSE)
    const bounded = { prompt, promptTokens: 1_000, contextTokens: 1_000 }
    const generated = { text: PROSE, reasoning: '', bytes: PROSE.length, usage: null, isUsageBehind: false }
    const unreported = await usageOf(counter, 'a', bounded, generated)
    expect(unreported.usage).toMatchObject({ promptTokens: 1_000 - output, completionTokens: output })
    // A report that is not believed counts no more than none.
    const usage = { promptTokens: 1, cachedPromptTokens: 0, completionTokens: output }
    const replaced = await usageOf(counter, 'a', bounded, { ...generated, usage })
    expect(replaced.usage).toEqual(unreported.usage)
  },
  LIMIT_MS,
)

test(
  'a prompt has the tokens of its messages and some for their form',
  async () => {
    const message = { role: 'user', content: PROSE } as const
    expect(await countPrompt(counter, [message, message], 'a')).toBe(2 * (countText(PROSE) + 4))
  },
  LIMIT_MS,
)

test(
  'a counter that is closed answers what it still owes from the length, and counts again when asked again',
  async () => {
    const other = createTokenCounter(SILENCE)
    const owed = other.count(['x'.repeat(4_000)], 'a')
    await other.close()
    expect(await owed).toBe(1_000)
    expect(await other.count([PROSE], 'a')).toBe(countText(PROSE))
    await other.close()
  },
  LIMIT_MS,
)
