import { expect, test } from 'bun:test'
import { type ChatEvent, ProviderFailure } from '../dialect/spec.ts'
import { eventsFromWire } from './events.ts'

/** The events of an answer whose chunks are given as objects. */
function read(...chunks: unknown[]): ChatEvent[] {
  const events: ChatEvent[] = []
  const progress = { begun: false, finished: false }
  for (const chunk of chunks) eventsFromWire(JSON.stringify(chunk), progress, events)
  return events
}

const chunk = (delta: unknown, finish: unknown = null, more: object = {}) => ({
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  created: 1_790_000_000,
  model: 'm',
  choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
  ...more,
})
const text = (value: string) => ({ kind: 'text' as const, text: value })
const STOP = { kind: 'finish' as const, reason: 'stop' as const }

test('OpenAI: role, content, finish, usage in a chunk without choices', () => {
  const usage = {
    prompt_tokens: 9,
    completion_tokens: 2,
    total_tokens: 11,
    prompt_tokens_details: { cached_tokens: 4 },
  }
  expect(
    read(
      chunk({ role: 'assistant', content: '', refusal: null }, null, { usage: null }),
      chunk({ content: 'Hel' }, null, { usage: null }),
      chunk({ content: 'lo' }, null, { usage: null }),
      chunk({}, 'stop', { usage: null }),
      { ...chunk({}), choices: [], usage },
    ),
  ).toEqual([
    text('Hel'),
    text('lo'),
    STOP,
    { kind: 'usage', usage: { promptTokens: 9, cachedPromptTokens: 4, completionTokens: 2 } },
  ])
})

test('vLLM: reasoning, and running totals in every chunk', () => {
  const usage = (completion: number) => ({
    usage: { prompt_tokens: 5, total_tokens: 5 + completion, completion_tokens: completion },
  })
  const counted = (completionTokens: number) => ({
    kind: 'usage' as const,
    usage: { promptTokens: 5, cachedPromptTokens: 0, completionTokens },
  })
  expect(
    read(
      chunk({ role: 'assistant', content: '' }, null, usage(0)),
      chunk({ reasoning_content: 'so ', content: null }, null, usage(1)),
      chunk({ content: 'Yes' }, null, usage(2)),
      chunk({ content: '' }, 'stop', { ...usage(2), stop_reason: null }),
    ),
  ).toEqual([counted(0), { kind: 'reasoning', text: 'so ' }, counted(1), text('Yes'), counted(2), STOP, counted(2)])
})

test('running totals that count hidden reasoning beside the completion: each report is whole', () => {
  const usage = (completion: number, reasoning: number) => ({
    usage: {
      prompt_tokens: 5,
      completion_tokens: completion,
      total_tokens: 5 + completion + reasoning,
      completion_tokens_details: { reasoning_tokens: reasoning },
    },
  })
  const counted = (completionTokens: number) => ({
    kind: 'usage' as const,
    usage: { promptTokens: 5, cachedPromptTokens: 0, completionTokens },
  })
  expect(
    read(
      chunk({ role: 'assistant', content: '' }, null, usage(0, 40)),
      chunk({ content: 'Yes' }, null, usage(1, 60)),
      chunk({}, 'stop', usage(1, 60)),
    ),
  ).toEqual([counted(40), text('Yes'), counted(61), STOP, counted(61)])
})

test('reasoning that is sent under both names is counted once', () => {
  expect(read(chunk({ reasoning: 'hm', reasoning_content: 'hm' }))).toEqual([{ kind: 'reasoning', text: 'hm' }])
  expect(read(chunk({ role: 'assistant', content: '', reasoning: 'hm' }))).toEqual([{ kind: 'reasoning', text: 'hm' }])
})

test('llama.cpp: the last chunk has an empty delta, usage and timings', () => {
  expect(
    read(chunk({ role: 'assistant', content: null }), chunk({ content: 'A' }), chunk({}, 'length'), {
      ...chunk({}),
      choices: [],
      usage: { completion_tokens: 1, prompt_tokens: 3, total_tokens: 4 },
      timings: { cache_n: 0 },
    }),
  ).toEqual([
    text('A'),
    { kind: 'finish', reason: 'length' },
    { kind: 'usage', usage: { promptTokens: 3, cachedPromptTokens: 0, completionTokens: 1 } },
  ])
})

test('a completion in place of a stream has the same content', () => {
  const message = { role: 'assistant', content: 'Hello', reasoning_content: 'greet' }
  expect(
    read({
      object: 'chat.completion',
      choices: [{ index: 0, message, finish_reason: 'stop' }],
      usage: { prompt_tokens: 3, completion_tokens: 1 },
    }),
  ).toEqual([
    { kind: 'reasoning', text: 'greet' },
    text('Hello'),
    STOP,
    { kind: 'usage', usage: { promptTokens: 3, cachedPromptTokens: 0, completionTokens: 1 } },
  ])
})

test('only the choice of index 0 is the answer, wherever it stands; of the others nothing counts', () => {
  const choice = (index: unknown, content: string, finish: unknown = null) => ({
    index,
    delta: { content, reasoning_content: `${content}?` },
    finish_reason: finish,
  })
  const both = (...choices: unknown[]) => ({ ...chunk({}), choices })
  expect(
    read(
      both(choice(1, 'two'), choice(0, 'one')),
      both(choice(1, ' more')),
      both(choice(2, '', 'abort')),
      both(choice(1, '', 'length'), choice(0, ' end', 'stop')),
      { ...both(choice(1, 'late')), usage: { prompt_tokens: 3, completion_tokens: 9 } },
    ),
  ).toEqual([
    { kind: 'reasoning', text: 'one?' },
    text('one'),
    { kind: 'reasoning', text: ' end?' },
    text(' end'),
    STOP,
    { kind: 'usage', usage: { promptTokens: 3, cachedPromptTokens: 0, completionTokens: 9 } },
  ])
})

test.each([[undefined], [null]])('a choice of index %p is the answer where none has index 0', (index) => {
  expect(read({ choices: [{ index, delta: { content: 'A' } }] })).toEqual([text('A')])
})

test('of a whole completion too, one choice is the answer', () => {
  const whole = (index: number, content: string) => ({ index, message: { content }, finish_reason: 'stop' })
  expect(read({ choices: [whole(1, 'two'), whole(0, 'one')] })).toEqual([text('one'), STOP])
})

const finishes: [unknown, string | null][] = [
  [null, null],
  [undefined, null],
  ['', null],
  ['stop', 'stop'],
  ['length', 'length'],
  ['content_filter', 'content_filter'],
  ['tool_calls', 'tool_calls'],
  ['function_call', 'tool_calls'],
  ['eos', 'stop'],
  ['something_new', 'stop'],
  [{ type: 'stop' }, 'stop'],
]
test.each(finishes)('finish_reason %p is %p', (wire, reason) => {
  expect(read(chunk({}, wire))).toEqual(reason === null ? [] : [{ kind: 'finish', reason } as ChatEvent])
})

test('a finish comes at most once', () => {
  expect(read(chunk({}, 'stop'), chunk({}, 'length'))).toEqual([STOP])
})

const odd: [string, unknown][] = [
  ['no choices', { id: 'x' }],
  ['choices null', { choices: null }],
  ['a choice null', { choices: [null] }],
  ['no delta', { choices: [{ index: 0 }] }],
  ['content null', chunk({ content: null })],
  ['Azure: filter results before the answer', { choices: [], prompt_filter_results: [] }],
  ['error: null', { ...chunk({}), error: null }],
]
test.each(odd)('a chunk that says nothing of the answer gives no event: %s', (_name, wire) => {
  expect(read(wire)).toEqual([])
})

const broken: [string, string][] = [
  ['no JSON', 'hello'],
  ['half a chunk', '{"choices":[{"delta":{"con'],
  ['an array', '[]'],
  ['null', 'null'],
  ['an answer given up', JSON.stringify(chunk({}, 'abort'))],
  ['choices that are no list', JSON.stringify({ choices: 'x' })],
  ['a delta that is no object', JSON.stringify({ choices: [{ index: 0, delta: 'x' }] })],
  ['content that is a number', JSON.stringify(chunk({ content: 5 }))],
  ['content in parts', JSON.stringify(chunk({ content: [{ type: 'text', text: 'x' }] }))],
  ['a message whose content is an object', JSON.stringify({ choices: [{ message: { content: {} } }] })],
]
test.each(broken)('faulty: %s', (_name, data) => {
  expect(() => eventsFromWire(data, { begun: false, finished: false }, [])).toThrow(ProviderFailure)
})
