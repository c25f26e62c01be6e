/** Every kind of call, by every dialect that has it, and how its provider answers: well, half, or with a lie. */

import { gzipSync } from 'node:zlib'
import { END_OF_BODY, piece } from '../rawServer.ts'
import { type Counts, lastHead, OTHER_APIS } from './otherApis.ts'

/** The counts that a provider claims. */
export interface Claimed {
  readonly prompt: number
  readonly completion: number
}

export interface CallKind {
  readonly name: string
  readonly dialect: 'openai' | 'anthropic' | 'gemini' | 'sdcpp'
  readonly modality: 'chat' | 'embedding' | 'image'
  readonly isStream: boolean
  /** Whether the provider is asked for a stream. */
  readonly contentType: 'text/event-stream' | 'application/json'
  /** Added to the server's address in the settings. */
  readonly basePath: string
  /** Beneath /v1, at the gateway. */
  readonly path: string
  /** The request but for its model. */
  readonly request: object
  /** The body of a good answer, as pieces of a chunked body; `says` is in its text, where it has one. */
  good(claimed?: Claimed, says?: string): readonly Buffer[]
}

const SOUND: Claimed = { prompt: 3, completion: 2 }
const CHAT = { messages: [{ role: 'user', content: 'Hello.' }], max_tokens: 16 }

const event = (data: unknown) => piece(`data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`)

function openaiChat({ prompt, completion }: Claimed = SOUND, says = 'Good day.'): readonly Buffer[] {
  return [
    event({ choices: [{ delta: { content: says } }] }),
    event({ choices: [{ delta: {}, finish_reason: 'stop' }] }),
    event({ choices: [], usage: { prompt_tokens: prompt, completion_tokens: completion } }),
    event('[DONE]'),
  ]
}

function vectors({ prompt }: Claimed = SOUND): readonly Buffer[] {
  const usage = { prompt_tokens: prompt, total_tokens: prompt }
  return [
    piece('{"model":"theirs","data":[{"index":0,"embed'),
    piece(`ding":[1,0.5]}],"usage":${JSON.stringify(usage)}}`),
  ]
}

/** `picture` in base64. */
function pictures(picture: string): CallKind['good'] {
  return ({ completion } = SOUND) => {
    const usage = { total_tokens: completion, image_count: completion }
    const text = JSON.stringify({ created: 1, data: [{ b64_json: picture }], usage })
    return [piece(text.slice(0, 60)), piece(text.slice(60))]
  }
}

function chats(dialect: 'openai' | 'anthropic' | 'gemini', basePath: string, good: CallKind['good']): CallKind[] {
  return [false, true].map((isStream) => ({
    name: `${dialect} chat, ${isStream ? 'streamed' : 'whole'}`,
    dialect,
    modality: 'chat',
    isStream,
    contentType: 'text/event-stream',
    basePath,
    path: '/chat/completions',
    request: { ...CHAT, stream: isStream },
    good,
  }))
}

export function callKinds(picture: string): readonly CallKind[] {
  const whole = { isStream: false, contentType: 'application/json', basePath: '/v1' } as const
  const image = { ...whole, modality: 'image', path: '/images/generations', request: { prompt: 'x' } } as const
  return [
    ...chats('openai', '/v1', openaiChat),
    ...OTHER_APIS.flatMap((api) =>
      chats(api.dialect, api.basePath, ({ prompt, completion } = SOUND, says = 'Good day.') => {
        const counts: Counts = { fresh: prompt, cached: 0, completion }
        return [api.begin(counts), api.say(says), api.end(api.reasons.stop, counts)]
      }),
    ),
    {
      ...whole,
      name: 'openai embeddings',
      dialect: 'openai',
      modality: 'embedding',
      path: '/embeddings',
      request: { input: 'Hello.' },
      good: vectors,
    },
    { ...image, name: 'openai images', dialect: 'openai', good: pictures(picture) },
    { ...image, name: 'sdcpp images', dialect: 'sdcpp', good: pictures(picture) },
  ]
}

/** A whole response on a connection that is closed after it. */
export function respond({ contentType }: CallKind, parts: readonly Buffer[]): Buffer {
  return Buffer.concat([Buffer.from(lastHead(contentType)), ...parts, Buffer.from(END_OF_BODY)])
}

/** 20 MB of zeros in 20 kB; the head says so. */
export function gzipBomb({ contentType }: CallKind, status = '200 OK'): Buffer {
  const body = gzipSync(Buffer.alloc(20_000_000))
  const head = `HTTP/1.1 ${status}\r\nContent-Type: ${contentType}\r\nContent-Encoding: gzip\r\nConnection: close\r\n`
  return Buffer.concat([Buffer.from(`${head}Content-Length: ${body.byteLength}\r\n\r\n`), body])
}

/** The bytes of `text`, in which each `?` is a byte that no UTF-8 has. */
export function withBadBytes(body: Buffer): Buffer {
  return Buffer.from(body.map((byte) => (byte === 0x3f ? 0xff : byte)))
}
