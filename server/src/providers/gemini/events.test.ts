import { expect, test } from 'bun:test'
import { type ChatEvent, ProviderFailure } from '../dialect/spec.ts'
import { readChunk } from './events.ts'

/** The events of an answer whose chunks are given as objects. */
function read(...chunks: unknown[]): ChatEvent[] {
  const events: ChatEvent[] = []
  const progress = { begun: false, finished: false }
  for (const chunk of chunks) readChunk(JSON.stringify(chunk), progress, events)
  return events
}

interface Metadata {
  readonly [name: string]: unknown
}

const chunk = (parts: readonly object[], finishReason?: unknown, usageMetadata?: Metadata) => ({
  candidates: [
    { content: { parts, role: 'model' }, index: 0, ...(finishReason === undefined ? {} : { finishReason }) },
  ],
  ...(usageMetadata === undefined ? {} : { usageMetadata }),
  modelVersion: 'gemini-x',
  responseId: 'r1',
})
const say = (text: string) => ({ text })
const metadata = (prompt: number, answer: number, more: Metadata = {}): Metadata => ({
  promptTokenCount: prompt,
  candidatesTokenCount: answer,
  totalTokenCount: prompt + answer,
  promptTokensDetails: [{ modality: 'TEXT', tokenCount: prompt }],
  ...more,
})

const text = (value: string) => ({ kind: 'text' as const, text: value })
const finish = (reason: string) => ({ kind: 'finish', reason }) as ChatEvent
const usage = (promptTokens: number, cachedPromptTokens: number, completionTokens: number) => ({
  kind: 'usage' as const,
  usage: { promptTokens, cachedPromptTokens, completionTokens },
})

test('an answer: text with running totals, its end, the total', () => {
  expect(
    read(
      chunk([say('Hel')], undefined, metadata(9, 1)),
      chunk([say('lo')], undefined, metadata(9, 2)),
      chunk([say('')], 'STOP', metadata(9, 3)),
    ),
  ).toEqual([text('Hel'), usage(9, 0, 1), text('lo'), usage(9, 0, 2), finish('stop'), usage(9, 0, 3)])
})

test('cached tokens are part of the prompt; thoughts are output beside the answer', () => {
  const more = { cachedContentTokenCount: 1_024, thoughtsTokenCount: 40 }
  expect(read(chunk([say('x')], 'STOP', metadata(2_000, 3, more)))).toEqual([
    text('x'),
    finish('stop'),
    usage(2_000, 1_024, 43),
  ])
})

test('a count of the prompt alone comes before the text of its chunk, so that it is no total', () => {
  expect(read(chunk([say('x')], undefined, { promptTokenCount: 9, totalTokenCount: 9 }))).toEqual([
    usage(9, 0, 0),
    text('x'),
  ])
})

test("the model's thinking is counted and not part of the answer; signatures say nothing", () => {
  expect(read(chunk([{ text: 'so ', thought: true }, say('Yes'), { thoughtSignature: 'EjQK' }]))).toEqual([
    { kind: 'reasoning', text: 'so ' },
    text('Yes'),
  ])
})

test('only the candidate of index 0 is the answer, wherever it stands; of the others nothing counts', () => {
  const candidate = (index: number | undefined, answer: string, finishReason?: string) => ({
    content: { parts: [say(answer)], role: 'model' },
    ...(index === undefined ? {} : { index }),
    ...(finishReason === undefined ? {} : { finishReason }),
  })
  expect(
    read(
      { candidates: [candidate(1, 'two'), candidate(0, 'one')] },
      { candidates: [candidate(1, ' more', 'OTHER')] },
      // Index 0 is left out by some of its servers, as proto3 leaves out what is 0.
      { candidates: [candidate(undefined, ' end', 'STOP'), candidate(1, 'late', 'MAX_TOKENS')] },
      { candidates: [candidate(1, 'late')], usageMetadata: metadata(9, 2) },
    ),
  ).toEqual([text('one'), text(' end'), finish('stop'), usage(9, 0, 2)])
})

const finishes: [unknown, string | null][] = [
  [undefined, null],
  [null, null],
  ['FINISH_REASON_UNSPECIFIED', null],
  ['STOP', 'stop'],
  ['MAX_TOKENS', 'length'],
  ['SAFETY', 'content_filter'],
  ['RECITATION', 'content_filter'],
  ['LANGUAGE', 'content_filter'],
  ['BLOCKLIST', 'content_filter'],
  ['PROHIBITED_CONTENT', 'content_filter'],
  ['SPII', 'content_filter'],
]
test.each(finishes)('finishReason %p is %p', (wire, reason) => {
  expect(read(chunk([], wire))).toEqual(reason === null ? [] : [finish(reason)])
})

test('a finish comes at most once, and may come without content', () => {
  expect(read({ candidates: [{ finishReason: 'SAFETY', index: 0 }] }, chunk([], 'STOP'))).toEqual([
    finish('content_filter'),
  ])
})

test.each(['OTHER', 'MALFORMED_FUNCTION_CALL', 'TOO_MANY_TOOL_CALLS', 'SOMETHING_NEW', 7])(
  'finishReason %p is an answer given up; what came of it is told',
  (wire) => {
    const events: ChatEvent[] = []
    const given = JSON.stringify(chunk([say('x')], wire))
    expect(() => readChunk(given, { begun: true, finished: false }, events)).toThrow(
      expect.objectContaining({ kind: 'faulty', mayFailOver: false }),
    )
    expect(events).toEqual([text('x')])
  },
)

test.each(['SAFETY', 'PROHIBITED_CONTENT', 'BLOCKLIST', 'OTHER'])(
  'a prompt blocked for %p is refused, in our words',
  (blockReason) => {
    expect(() => read({ promptFeedback: { blockReason }, usageMetadata: { promptTokenCount: 9 } })).toThrow(
      expect.objectContaining({
        kind: 'rejected',
        message: `the prompt was blocked (${blockReason})`,
        publicMessage: expect.stringContaining('blocked this prompt'),
      }),
    )
  },
)

const senseless: [string, Metadata][] = [
  ['no prompt', { candidatesTokenCount: 3 }],
  ['negative', metadata(-1, 3)],
  ['a digit string', { promptTokenCount: '1' }],
  ['fractional thoughts', metadata(1, 3, { thoughtsTokenCount: 0.5 })],
  ['absurd', metadata(1, 1e15)],
  ['more cached than there are', metadata(1, 3, { cachedContentTokenCount: 2 })],
]
test.each(senseless)('usage that makes no sense counts as absent: %s', (_name, wire) => {
  expect(read(chunk([say('x')], undefined, wire))).toEqual([text('x')])
})

const odd: [string, unknown][] = [
  ['no candidates', { modelVersion: 'x' }],
  ['candidates null', { candidates: null }],
  ['a candidate null', { candidates: [null] }],
  ['no parts', { candidates: [{ content: { role: 'model' } }] }],
  ['a part null', chunk([null as never])],
  ['a call of a tool', chunk([{ functionCall: { name: 'f', args: {} } }])],
  ['ratings of a prompt that was not blocked', { promptFeedback: { safetyRatings: [] } }],
]
test.each(odd)('says nothing of the answer: %s', (_name, wire) => {
  expect(read(wire)).toEqual([])
})

test.each([
  ['no JSON', 'hello'],
  ['half a chunk', '{"candidates":[{"con'],
  ['an array', '[]'],
  ['null', 'null'],
])('faulty: %s', (_name, data) => {
  expect(() => readChunk(data, { begun: false, finished: false }, [])).toThrow(ProviderFailure)
})

test('an error object: another target may be asked before anything of the answer came, and not after', () => {
  const error = { error: { code: 503, message: 'The model is overloaded.', status: 'UNAVAILABLE' } }
  expect(() => read(error)).toThrow(expect.objectContaining({ kind: 'unavailable', mayFailOver: true }))
  expect(() => read(chunk([say('x')]), error)).toThrow(
    expect.objectContaining({ kind: 'unavailable', mayFailOver: false }),
  )
})
