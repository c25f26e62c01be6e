/** Answers that are taken without promises: as they come, in the turn that brings them. */

import { expect, test } from 'bun:test'
import type { HttpAnswer } from '../../infra/httpClient.ts'
import { readChunk } from '../openai/events.ts'
import { StreamedChat } from './streamed.ts'

/** An answer into which a test pushes bytes. */
class PushedAnswer implements HttpAnswer {
  readonly status = 200
  private readonly pieces: Uint8Array[] = []
  private isEnded = false
  private waiting: (() => void) | null = null
  private reading: ((piece: Uint8Array | null) => void) | null = null

  header(): null {
    return null
  }

  push(...pieces: (Uint8Array | string)[]): void {
    for (const piece of pieces) this.pieces.push(typeof piece === 'string' ? new TextEncoder().encode(piece) : piece)
    this.tell()
  }

  end(): void {
    this.isEnded = true
    this.tell()
  }

  ready(): Uint8Array | undefined {
    return this.pieces.shift()
  }

  whenReady(callback: () => void): boolean {
    if (this.isEnded || this.pieces.length > 0) return false
    this.waiting = callback
    return true
  }

  read(): Promise<Uint8Array | null> {
    const piece = this.ready()
    if (piece !== undefined || this.isEnded) return Promise.resolve(piece ?? null)
    return new Promise((resolve) => {
      this.reading = resolve
    })
  }

  release(): void {
    this.end()
  }

  cancel(): void {
    this.end()
  }

  private tell(): void {
    const { waiting, reading } = this
    this.waiting = null
    this.reading = null
    waiting?.()
    if (reading !== null) reading(this.ready() ?? null)
  }
}

const say = (content: string) => `data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`
const STOP = 'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'

function open() {
  const answer = new PushedAnswer()
  const chat = new StreamedChat(answer, readChunk)
  let called = 0
  const wait = () =>
    chat.whenReady(() => {
      called += 1
    })
  return { answer, chat, wait, called: () => called }
}

const textOf = (chat: StreamedChat) => {
  const event = chat.ready()
  return event?.kind === 'text' ? event.text : event?.kind
}

test('a reader that waits is called by a whole event, at once, and not by a part of one or a comment', () => {
  const { answer, chat, wait, called } = open()
  expect(wait()).toBe(true)
  answer.push(': a comment\n\n', say('one').slice(0, 20))
  expect(called()).toBe(0)
  answer.push(say('one').slice(20))
  expect(called()).toBe(1)
  expect([textOf(chat), textOf(chat)]).toEqual(['one', undefined])
  answer.push(say('two') + say('three'), say('four'))
  // Nobody waited.
  expect(called()).toBe(1)
  expect([textOf(chat), textOf(chat), textOf(chat), textOf(chat)]).toEqual(['two', 'three', 'four', undefined])
})

test('a reader that waits is called by the end, whole or not, and then nothing more is to be waited for', async () => {
  const whole = open()
  whole.wait()
  whole.answer.push(say('one') + STOP)
  expect(whole.called()).toBe(1)
  expect([textOf(whole.chat), textOf(whole.chat), textOf(whole.chat)]).toEqual(['one', 'finish', undefined])
  expect(whole.wait()).toBe(false)
  expect((await whole.chat.next()).done).toBe(true)

  const broken = open()
  broken.wait()
  broken.answer.end()
  expect(broken.called()).toBe(1)
  expect(broken.wait()).toBe(false)
  await expect(broken.chat.next()).rejects.toThrow('the stream ended before the answer did')
})

test('a failure comes behind what came before it', async () => {
  const { answer, chat, wait, called } = open()
  wait()
  answer.push(`${say('one')}data: {"error":{"message":"boom"}}\n\n`)
  expect(called()).toBe(1)
  expect([textOf(chat), textOf(chat)]).toEqual(['one', undefined])
  expect(wait()).toBe(false)
  await expect(chat.next()).rejects.toThrow()
})

test('however its bytes are cut, an answer has the same text by promises and without', async () => {
  const texts = ['Grüße', ' 你好', ' สวัสดี', ' 👩‍👩‍👧‍👦', '\ufeff', ' end']
  const bytes = new TextEncoder().encode(texts.map(say).join('') + STOP)
  // A small generator of its own: a failing run is repeated by its seed.
  for (let seed = 1; seed <= 300; seed += 1) {
    let state = seed
    const next = (below: number) => {
      state = (state * 1_103_515_245 + 12_345) % 2 ** 31
      return state % below
    }
    const { answer, chat } = open()
    let text = ''
    const takeAll = () => {
      for (let event = chat.ready(); event !== undefined; event = chat.ready()) {
        if (event.kind === 'text') text += event.text
      }
    }
    const proceed = () => {
      takeAll()
      chat.whenReady(proceed)
    }
    const byPromise = async () => {
      const event = await chat.next()
      if (!event.done && event.value.kind === 'text') text += event.value.text
      proceed()
    }
    // The first event by a promise, as the paid call takes it, or all of them without.
    const reading = seed % 3 === 0 ? byPromise() : proceed()
    for (let from = 0; from < bytes.length; ) {
      const to = Math.min(bytes.length, from + 1 + next(40))
      answer.push(bytes.slice(from, to))
      from = to
      if (next(4) === 0) await Promise.resolve()
    }
    await reading
    takeAll()
    expect({ seed, text }).toEqual({ seed, text: texts.join('') })
  }
})
