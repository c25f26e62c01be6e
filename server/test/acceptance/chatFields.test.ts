/** C8, E5 and E7: what a chat request may say, field by field. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from './ask.ts'
import { chat, SETTINGS } from './catalog.ts'
import { expectErrorEvent, expectRefusal } from './refusals.ts'

const path = '/chat/completions'
let gateway: AskedGateway
let key: string

beforeAll(async () => {
  gateway = await openAskedGateway({ settings: SETTINGS })
  key = (await gateway.customer()).key
})
afterAll(() => gateway.close())

const messages = (...list: unknown[]) => chat({ messages: list })
const user = { role: 'user', content: 'Hello.' }
const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }

/** Everything that OpenAI's own endpoint takes and this one does not. */
const OTHERS: Readonly<Record<string, unknown>> = {
  audio: { voice: 'x', format: 'mp3' },
  frequency_penalty: 0,
  function_call: 'auto',
  functions: [],
  logit_bias: {},
  logprobs: false,
  max_completion_tokens: 5,
  metadata: {},
  modalities: ['text'],
  n: 1,
  parallel_tool_calls: true,
  prediction: {},
  presence_penalty: 0,
  prompt_cache_key: 'x',
  reasoning_effort: 'low',
  response_format: { type: 'json_object' },
  safety_identifier: 'x',
  seed: 1,
  service_tier: 'auto',
  stop: ['x'],
  store: false,
  tool_choice: 'none',
  tools: [],
  top_k: 1,
  top_logprobs: 1,
  top_p: 1,
  user: 'x',
  verbosity: 'low',
  web_search_options: {},
  no_such_thing: true,
  constructor: 1,
  toString: 1,
}

describe('a parameter that is not supported is refused by its name', () => {
  test.each(Object.keys(OTHERS))('%s', async (param) => {
    const body = chat({ [param]: OTHERS[param] })
    expectRefusal(await gateway.ask({ path, key, body }), 'B', { status: 400, code: 'unsupported_parameter', param })
  })

  test('__proto__, which only JSON can name', async () => {
    const body = JSON.stringify(chat()).replace('{', '{"__proto__":{"stream":true},')
    const expected = { status: 400, code: 'unsupported_parameter', param: '__proto__' }
    expectRefusal(await gateway.ask({ path, key, body }), 'B', expected)
  })

  test('max_completion_tokens is told its other name', async () => {
    const answer = await gateway.ask({ path, key, body: chat({ max_completion_tokens: 5, seed: 1 }) })
    const param = 'max_completion_tokens'
    expectRefusal(answer, 'B', { status: 400, code: 'unsupported_parameter', param, says: /use max_tokens/ })
  })

  test('all of them are named at once, before any value that is wrong (E17)', async () => {
    const body = {
      ...messages({ role: 'robot', content: 'x', name: 'n' }),
      temperature: 9,
      top_p: 1,
      user: 'u',
      seed: 1,
    }
    const expected = { status: 400, code: 'unsupported_parameter', param: 'messages[0].name' }
    const says = /'messages\[0\]\.name', 'top_p', 'user' and 'seed' are not supported here; leave them out/
    expectRefusal(await gateway.ask({ path, key, body }), 'B', { ...expected, says })
  })

  const nested: [string, object, string][] = [
    ['tool_calls', messages({ role: 'assistant', content: '', tool_calls: [call] }), 'messages[0].tool_calls'],
    ['tool_call_id', messages(user, { role: 'user', content: '', tool_call_id: 'c' }), 'messages[1].tool_call_id'],
    ['function_call', messages({ role: 'assistant', content: '', function_call: {} }), 'messages[0].function_call'],
    ['role tool', messages(user, { role: 'tool', content: 'x' }), 'messages[1].role'],
    ['role function', messages({ role: 'function', content: 'x' }), 'messages[0].role'],
    ['a tool result', messages({ role: 'tool', content: 'x', tool_call_id: 'c' }), 'messages[0].tool_call_id'],
    ['tool_calls in place of content', messages({ role: 'assistant', tool_calls: [call] }), 'messages[0].tool_calls'],
    ['name', messages({ ...user, name: 'x' }), 'messages[0].name'],
    ['refusal', messages({ role: 'assistant', content: '', refusal: 'no' }), 'messages[0].refusal'],
    [
      'in stream_options',
      chat({ stream_options: { include_obfuscation: true } }),
      'stream_options.include_obfuscation',
    ],
  ]
  test.each(nested)('inside: %s', async (_name, body, param) => {
    expectRefusal(await gateway.ask({ path, key, body }), 'B', { status: 400, code: 'unsupported_parameter', param })
  })
})

describe('a value that is wrong', () => {
  type Row = [string, unknown, string | null, RegExp?]
  const rows: Row[] = [
    ['no model', { messages: [user] }, 'model', /'model' is required/],
    ['a model that is no text', chat({ model: 5 }), 'model'],
    ['an empty model', chat({ model: '' }), 'model'],
    ['no messages', { model: 'svc/demo' }, 'messages'],
    ['messages that are no list', chat({ messages: 'Hello.' }), 'messages'],
    ['an empty list', chat({ messages: [] }), 'messages', /at least one message/],
    ['a message that is no object', messages('Hello.'), 'messages[0]'],
    ['a message that is null', messages(user, null), 'messages[1]'],
    ['no role', messages({ content: 'x' }), 'messages[0].role'],
    ['no content', messages({ role: 'user' }), 'messages[0].content'],
    ['content that is null', messages({ role: 'assistant', content: null }), 'messages[0].content'],
    ['content in parts', messages({ role: 'user', content: [{ type: 'text', text: 'x' }] }), 'messages[0].content'],
    ['content that is a number', messages(user, { role: 'user', content: 1 }), 'messages[1].content'],
    ['role developer', messages({ role: 'developer', content: 'x' }), 'messages[0].role', /use system/],
    ['another role', messages({ role: 'robot', content: 'x' }), 'messages[0].role', /'system', 'user', 'assistant'/],
    ['a role that is no text', messages({ role: 1, content: 'x' }), 'messages[0].role'],
    ['max_tokens 0', chat({ max_tokens: 0 }), 'max_tokens'],
    ['max_tokens below', chat({ max_tokens: -1 }), 'max_tokens'],
    ['max_tokens with a fraction', chat({ max_tokens: 1.5 }), 'max_tokens'],
    ['max_tokens as text', chat({ max_tokens: '5' }), 'max_tokens'],
    ['max_tokens as true', chat({ max_tokens: true }), 'max_tokens'],
    ['max_tokens beyond all numbers', JSON.stringify(chat({ max_tokens: 9 })).replace('9', '1e999'), 'max_tokens'],
    ['temperature below', chat({ temperature: -0.01 }), 'temperature'],
    ['temperature above', chat({ temperature: 2.01 }), 'temperature'],
    ['temperature as text', chat({ temperature: '1' }), 'temperature'],
    ['stream as text', chat({ stream: 'true' }), 'stream'],
    ['stream as number', chat({ stream: 1 }), 'stream'],
    ['stream_options as true', chat({ stream_options: true }), 'stream_options'],
    ['include_usage as text', chat({ stream_options: { include_usage: 'no' } }), 'stream_options.include_usage'],
    ['a list', [chat()], null],
    ['null', 'null', null],
    ['text', '"Hello."', null],
    ['a number', '1', null],
  ]
  test.each(rows)('%s', async (...[, body, param, says]: Row) => {
    const expected = { status: 422, code: 'validation_failed', ...(param && { param }), ...(says && { says }) }
    expectRefusal(await gateway.ask({ path, key, body }), 'B', expected)
  })

  test('is told in the first of many messages that has it', async () => {
    const many = [...new Array(500).fill(user), { role: 'robot', content: 'x' }, { role: 'robot', content: 'x' }]
    const expected = { status: 422, code: 'validation_failed', param: 'messages[500].role' }
    expectRefusal(await gateway.ask({ path, key, body: chat({ messages: many }) }), 'B', expected)
  })

  test('is told before a stream begins, not in it', async () => {
    const answer = await gateway.ask({ path, key, body: chat({ stream: true, temperature: 3 }) })
    expectRefusal(answer, 'B', { status: 422, code: 'validation_failed', param: 'temperature' })
  })
})

describe('a value that is right', () => {
  const rows: [string, object][] = [
    ['temperature 0', chat({ temperature: 0 })],
    ['temperature 2', chat({ temperature: 2 })],
    ['max_tokens 1', chat({ max_tokens: 1 })],
    ['max_tokens 1.0, the same number', chat({ max_tokens: 1.0 })],
    ['max_tokens above what the model can do', chat({ max_tokens: 1_000_000 })],
    ['stream_options without a stream', chat({ stream_options: { include_usage: true } })],
    ['empty stream_options', chat({ stream_options: {} })],
    ['empty content', messages({ role: 'user', content: '' })],
    ['no user message', messages({ role: 'system', content: 'x' })],
    ['all roles', messages({ role: 'system', content: 'x' }, user, { role: 'assistant', content: 'x' }, user)],
    ['an alias', chat({ model: 'demo' })],
    ['the economy tier', chat({ model: 'demo:economy' })],
    ['all that may be null, and what is not known, null (E7)', { ...chat(), ...nulls(), tools: null, seed: null }],
    ['null inside', messages({ ...user, tool_calls: null, name: null })],
    ['stream_options of nulls', chat({ stream_options: { include_usage: null, other: null } })],
  ]
  test.each(rows)('%s', async (_name, body) => {
    const { status, json } = await gateway.ask({ path, key, body })
    expect([status, (json as { model: string }).model]).toEqual([200, 'svc/demo'])
  })

  function nulls() {
    return { stream: null, stream_options: null, max_tokens: null, temperature: null }
  }
})

describe('a model that can not be called (M3, M4)', () => {
  test.each([
    ['svc/none', /does not exist/],
    ['svc/soon', /'coming_soon'/],
    ['svc/retired', /'deprecated'/],
    ['svc/dear:economy', /no economy tier/],
    ['svc%2Fdemo', /does not exist/],
    ['x'.repeat(5_000), /…'/],
  ])('%s', async (model, says) => {
    const expected = { status: 404, code: 'model_not_found', param: 'model', says }
    expectRefusal(await gateway.ask({ path, key, body: chat({ model }) }), 'B', expected)
    expectErrorEvent(await gateway.ask({ path, key, body: chat({ model, stream: true }) }), 0, expected)
  })
})

describe('stream_options.include_usage (C1)', () => {
  test.each([
    [{}, true],
    [{ stream_options: {} }, true],
    [{ stream_options: { include_usage: null } }, true],
    [{ stream_options: { include_usage: true } }, true],
    [{ stream_options: { include_usage: false } }, false],
  ])('%j', async (more, shown) => {
    const { events } = await gateway.ask({ path, key, body: chat({ stream: true, ...more }) })
    expect(events.at(-1)).toBe('[DONE]')
    const chunks = events.slice(0, -1).map((event) => JSON.parse(event))
    expect(chunks.map(({ usage }) => usage !== undefined)).toEqual(
      chunks.map((_, i) => shown && i === chunks.length - 1),
    )
    expect(chunks.every(({ choices }) => choices.length === 1)).toBe(true)
    expect(chunks[0].choices[0].delta.role).toBe('assistant')
    expect(chunks.map(({ choices }) => choices[0].finish_reason).filter((reason) => reason !== null)).toEqual(['stop'])
  })
})
