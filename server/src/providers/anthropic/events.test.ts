import { expect, test } from 'bun:test'
import { type ChatEvent, ProviderFailure } from '../dialect/spec.ts'
import type { Progress } from '../dialect/streamed.ts'
import { messageReader } from './events.ts'

interface Read {
  readonly events: ChatEvent[]
  readonly progress: Progress
  readonly whole: boolean
}

/** Reads a message whose events are given as objects. */
function read(...wires: unknown[]): Read {
  const events: ChatEvent[] = []
  const progress = { begun: false, finished: false }
  const readEvent = messageReader()
  let whole = false
  for (const wire of wires) whole = readEvent(JSON.stringify(wire), progress, events)
  return { events, progress, whole }
}

const start = (usage: object = { input_tokens: 25, output_tokens: 1 }) => ({
  type: 'message_start',
  message: {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'claude-x',
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage,
  },
})
const open = (content_block: object, index = 0) => ({ type: 'content_block_start', index, content_block })
const piece = (delta: object, index = 0) => ({ type: 'content_block_delta', index, delta })
const say = (text: string) => piece({ type: 'text_delta', text })
const end = (stop_reason: unknown, usage: object = { output_tokens: 15 }) => ({
  type: 'message_delta',
  delta: { stop_reason, stop_sequence: null },
  usage,
})
const CLOSE = { type: 'content_block_stop', index: 0 }
const PING = { type: 'ping' }
const STOP = { type: 'message_stop' }

const text = (value: string) => ({ kind: 'text' as const, text: value })
const finish = (reason: string) => ({ kind: 'finish', reason }) as ChatEvent
const usage = (promptTokens: number, cachedPromptTokens: number, completionTokens: number) => ({
  kind: 'usage' as const,
  usage: { promptTokens, cachedPromptTokens, completionTokens },
})

test('a message: text, its end, the total', () => {
  const { events, progress, whole } = read(
    start(),
    open({ type: 'text', text: '' }),
    PING,
    say('Hel'),
    say('lo'),
    CLOSE,
    end('end_turn'),
    STOP,
  )
  expect(events).toEqual([usage(25, 0, 1), text('Hel'), text('lo'), finish('stop'), usage(25, 0, 15)])
  expect([progress, whole]).toEqual([{ begun: true, finished: true }, true])
})

test('tokens read from the cache and written to it are prompt tokens too, the former cached ones', () => {
  const counted = {
    input_tokens: 10,
    cache_creation_input_tokens: 200,
    cache_read_input_tokens: 3_000,
    cache_creation: { ephemeral_5m_input_tokens: 200, ephemeral_1h_input_tokens: 0 },
    output_tokens: 2,
    service_tier: 'standard',
  }
  expect(read(start(counted), say('x'), end('end_turn'), STOP).events.at(-1)).toEqual(usage(3_210, 3_000, 15))
})

test('an end that counts everything again goes before the start', () => {
  const total = { input_tokens: 30, cache_creation_input_tokens: null, cache_read_input_tokens: 7, output_tokens: 9 }
  expect(read(start(), say('x'), end('end_turn', total), STOP).events.at(-1)).toEqual(usage(37, 7, 9))
})

test('thinking is counted and not part of the answer; signatures and redacted thinking say nothing', () => {
  const { events } = read(
    start(),
    open({ type: 'thinking', thinking: '', signature: '' }),
    piece({ type: 'thinking_delta', thinking: 'so ' }),
    piece({ type: 'signature_delta', signature: 'EqQB' }),
    CLOSE,
    open({ type: 'redacted_thinking', data: 'EmwK' }, 1),
    open({ type: 'text', text: '' }, 2),
    say('Yes'),
  )
  expect(events).toEqual([usage(25, 0, 1), { kind: 'reasoning', text: 'so ' }, text('Yes')])
})

test('until a piece of the answer came nothing has begun: another target may be asked', () => {
  expect(read(start(), PING, open({ type: 'text', text: '' }))).toEqual({
    events: [],
    progress: { begun: false, finished: false },
    whole: false,
  })
})

test('an answer without a piece has its end and its usage', () => {
  expect(read(start(), end('refusal', { output_tokens: 0 }), STOP).events).toEqual([
    finish('content_filter'),
    usage(25, 0, 0),
  ])
})

test('an end without a count tells no total: what the start said of the output is none', () => {
  expect(read(start(), say('x'), end('end_turn', {}), STOP).events).toEqual([
    usage(25, 0, 1),
    text('x'),
    finish('stop'),
  ])
})

const finishes: [unknown, string][] = [
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['tool_use', 'tool_calls'],
  ['refusal', 'content_filter'],
  ['pause_turn', 'stop'],
  ['something_new', 'stop'],
]
test.each(finishes)('stop_reason %p is %p', (wire, reason) => {
  expect(read(end(wire, {})).events).toEqual([finish(reason)])
})

test('a finish comes at most once, and not while the reason is null', () => {
  const { events, progress } = read(end(null, {}))
  expect([events, progress.finished]).toEqual([[], false])
  expect(read(end('end_turn', {}), end('max_tokens', {})).events).toEqual([finish('stop')])
})

const senseless: [string, object][] = [
  ['negative', { input_tokens: -1, output_tokens: 3 }],
  ['a digit string', { input_tokens: '1', output_tokens: 3 }],
  ['fractional', { input_tokens: 1, output_tokens: 0.5 }],
  ['absurd', { input_tokens: 1, cache_read_input_tokens: 1e15, output_tokens: 3 }],
  ['a negative cache', { input_tokens: 1, cache_creation_input_tokens: -2, output_tokens: 3 }],
]
test.each(senseless)('usage that makes no sense counts as absent: %s', (_name, counted) => {
  expect(read(start(counted), say('x')).events).toEqual([text('x')])
})

const odd: [string, unknown][] = [
  ['an event of a kind not known', { type: 'message_mood', mood: 'good' }],
  ['no type', { hello: 1 }],
  ['no delta', { type: 'content_block_delta', index: 0 }],
  ['a delta of a kind not known', piece({ type: 'citations_delta', citation: {} })],
  ['the input of a tool', piece({ type: 'input_json_delta', partial_json: '{' })],
  ['text that is no string', piece({ type: 'text_delta', text: 3 })],
  ['a start without a message', { type: 'message_start' }],
]
test.each(odd)('says nothing of the answer: %s', (_name, wire) => {
  expect(read(wire).events).toEqual([])
})

test.each([
  ['no JSON', 'hello'],
  ['half an event', '{"type":"content_bl'],
  ['an array', '[]'],
  ['null', 'null'],
])('faulty: %s', (_name, data) => {
  expect(() => messageReader()(data, { begun: false, finished: false }, [])).toThrow(ProviderFailure)
})

test('an error event: another target may be asked before anything of the answer came, and not after', () => {
  const error = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }
  expect(() => read(start(), error)).toThrow(expect.objectContaining({ kind: 'unavailable', mayFailOver: true }))
  expect(() => read(start(), say('x'), error)).toThrow(
    expect.objectContaining({ kind: 'unavailable', mayFailOver: false }),
  )
})
