/** A gateway in this process to which every question is asked the same way, and every answer held to the description. */

import { callsBy, type Gateway, type GatewayOptions, openGateway } from '../gateway.ts'
import { type Answer, createDescription, type Description, type Document } from './description.ts'

export interface Question {
  /** GET unless there is a body. */
  readonly method?: string
  /** Beneath /v1, or one of /manage/v1. */
  readonly path: string
  /** Left out, none is sent. */
  readonly key?: string | { readonly key: string } | undefined
  readonly headers?: Readonly<Record<string, string>>
  /** A string, bytes and a stream are sent as they are, anything else as JSON. */
  readonly body?: unknown
  /** The address that the request comes from. */
  readonly address?: string
}

/** `send`, `post` and `get` hold answers to the description too, of streams the head alone. */
export interface AskedGateway extends Gateway {
  readonly description: Document
  /** Of the management interface. */
  readonly managed: Document
  /** Asks, and throws where the answer is not as described. Has the whole answer when it resolves. */
  ask(question: Question): Promise<Answer>
}

const MANAGE = '/manage/v1'

/** Pages for people are in no description. */
const PAGES = '/account'

/** Opens a gateway whose every answer is compared with the OpenAPI description. Call `close` in `afterAll`. */
export async function openAskedGateway(options: GatewayOptions = {}): Promise<AskedGateway> {
  const gateway = await openGateway(options)
  const description: Document = await (await gateway.send('/openapi.json')).json()
  const managed: Document = await (await gateway.send('/manage/openapi.json')).json()
  const described = createDescription(description)
  const describedManaged = createDescription(managed)
  const describe: Pick<Description, 'check'> = {
    check: (method, path, answer) =>
      path.startsWith(MANAGE)
        ? describedManaged.check(method, path.slice(MANAGE.length), answer)
        : described.check(method, path, answer),
  }
  const send: Gateway['send'] = async (path, init) => {
    const response = await gateway.send(path, init)
    if (path.startsWith(PAGES)) return response
    const isStream = response.headers.get('Content-Type')?.startsWith('text/event-stream') === true
    const { status, headers } = response
    const answer = isStream
      ? { status, headers, text: '', json: undefined, events: [] }
      : await readAnswer(response.clone())
    describe.check(init?.method ?? 'GET', path, answer)
    return response
  }
  return { ...gateway, ...callsBy(send), description, managed, ask: (question) => ask(gateway, describe, question) }
}

async function ask(gateway: Gateway, described: Pick<Description, 'check'>, question: Question): Promise<Answer> {
  const { path, body, address } = question
  const method = question.method ?? (body === undefined ? 'GET' : 'POST')
  const response = await gateway.send(path, {
    method,
    headers: headersOf(question),
    ...(body === undefined ? {} : { body: bodyOf(body) }),
    ...(address === undefined ? {} : { address }),
  })
  const answer = await readAnswer(response)
  described.check(method, path, answer)
  return answer
}

function headersOf({ key, headers }: Pick<Question, 'key' | 'headers'>): Record<string, string> {
  if (key === undefined) return { ...headers }
  return { Authorization: `Bearer ${typeof key === 'string' ? key : key.key}`, ...headers }
}

function bodyOf(body: unknown): string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> {
  if (typeof body === 'string' || body instanceof ReadableStream) return body
  return body instanceof Uint8Array ? new Uint8Array(body) : JSON.stringify(body)
}

export async function readAnswer(response: Response): Promise<Answer> {
  const text = await response.text()
  const events = [...text.matchAll(/^data: (.*)$/gm)].map(([, data = '']) => data)
  return { status: response.status, headers: response.headers, text, json: parse(text), events }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
