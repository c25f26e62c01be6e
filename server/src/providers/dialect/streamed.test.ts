import { expect, test } from 'bun:test'
import { type HttpAnswer, HttpFailure } from '../../infra/httpClient.ts'
import { readChunk } from '../openai/events.ts'
import type { ChatEvent } from './spec.ts'
import { StreamedChat } from './streamed.ts'

type Read = Uint8Array | string | Error | null

/** An answer whose reads are given; after them it hangs, as a server does that sends nothing more. */
function answering(...reads: Read[]): HttpAnswer & { cancelled: boolean; released: boolean } {
  return {
    status: 200,
    cancelled: false,
    released: false,
    header: () => null,
    read() {
      if (reads.length === 0) return new Promise(() => {})
      const read = reads.shift() as Read
      if (read instanceof Error) return Promise.reject(read)
      return Promise.resolve(typeof read === 'string' ? new TextEncoder().encode(read) : read)
    },
    release() {
      this.released = true
    },
    cancel() {
      this.cancelled = true
    },
  }
}

/** Everything that comes, as short words; a failure last. */
async function collect(answer: HttpAnswer): Promise<string[]> {
  const words: string[] = []
  try {
    for await (const event of new StreamedChat(answer, readChunk)) words.push(wordOf(event))
  } catch (error) {
    words.push(`${(error as { kind?: string }).kind}!`)
  }
  return words
}

function wordOf(event: ChatEvent): string {
  if (event.kind === 'finish') return `(${event.reason})`
  return event.kind === 'usage' ? 'usage' : event.text
}

const say = (content: string) => `data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`
const STOP = 'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
const DONE = 'data: [DONE]\n\n'

const streams: [string, Read[], string[]][] = [
  [
    'an event of the name error, whatever it says',
    [say('a'), 'event: error\ndata: {"message":"boom"}\n\n', DONE, null],
    ['a', 'faulty!'],
  ],
  ['all in one read', [say('a') + say('b') + STOP + DONE, null], ['a', 'b', '(stop)']],
  ['an event split over reads', [say('ab').slice(0, 20), say('ab').slice(20), STOP + DONE, null], ['ab', '(stop)']],
  [
    'comments, CRLF, other fields',
    [`: ping\r\n\r\nevent: x\r\nid: 1\r\n${say('a')}${STOP}${DONE}`, null],
    ['a', '(stop)'],
  ],
  ['no [DONE], but a finish', [say('a') + STOP, null], ['a', '(stop)']],
  ['no empty line after [DONE]', [`${say('a')}${STOP}data: [DONE]`, null], ['a', '(stop)']],
  ['[DONE] without a finish', [say('a') + DONE, null], ['a', '(stop)']],
  ['nothing but [DONE]', [DONE, null], []],
  ['what follows [DONE] is not looked at', [STOP + DONE + say('x'), null], ['(stop)']],
  ['cut off between events', [say('a'), null], ['a', 'faulty!']],
  ['cut off in mid-event', [say('a') + say('b').slice(0, 25), null], ['a', 'faulty!']],
  ['no event at all', [null], ['faulty!']],
  ['the connection breaks before the answer', [new HttpFailure('ECONNRESET', true)], ['unavailable!']],
  ['the connection breaks in the answer', [say('a'), new HttpFailure('ECONNRESET', true)], ['a', 'faulty!']],
  [
    'an error object in mid-answer',
    [`${say('a')}data: {"error":{"message":"x"}}\n\n${say('b')}`],
    ['a', 'unavailable!'],
  ],
  ['a chunk that is no JSON', [`${say('a')}data: oops\n\n${say('b')}`], ['a', 'faulty!']],
]
test.each(streams)('%s', async (_name, reads, words) => {
  expect(await collect(answering(...reads))).toEqual(words)
})

test('a character split over two reads stays whole; invalid UTF-8 becomes U+FFFD', async () => {
  const bytes = new TextEncoder().encode(say('ä'))
  const middle = bytes.indexOf(0xc3) + 1
  const broken = new TextEncoder().encode(say('?'))
  broken[broken.indexOf(0x3f)] = 0xff
  const words = await collect(answering(bytes.slice(0, middle), bytes.slice(middle), broken, STOP, null))
  expect(words).toEqual(['ä', '\ufffd', '(stop)'])
})

test('a line without end is faulty after a bounded number of characters, and its connection is closed', async () => {
  const part = 'x'.repeat(1 << 20)
  const answer = answering(`data: ${part}`, ...new Array(100).fill(part))
  expect(await collect(answer)).toEqual(['faulty!'])
  expect(answer.cancelled).toBe(true)
})

test('an event of endless lines is bounded too', async () => {
  const answer = answering(...new Array(100).fill(`data: ${'x'.repeat(1 << 20)}\n`))
  expect(await collect(answer)).toEqual(['faulty!'])
})

test('after [DONE] the rest of the body is left to the client', async () => {
  const answer = answering(say('a') + STOP + DONE)
  expect(await collect(answer)).toEqual(['a', '(stop)'])
  expect([answer.released, answer.cancelled]).toEqual([true, false])
})

test('leaving early closes the connection', async () => {
  const answer = answering(say('a') + say('b'))
  for await (const event of new StreamedChat(answer, readChunk)) {
    expect(wordOf(event)).toBe('a')
    break
  }
  expect(answer.cancelled).toBe(true)
})
