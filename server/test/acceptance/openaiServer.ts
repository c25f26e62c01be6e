/**
 * A small, honest model server that speaks OpenAI's wire format, as a process of its own. It says the numbers from 1 up,
 * a word a token, until `max_tokens` or 20. The model's name chooses how it behaves. Prints its port, then serves
 * until its input ends.
 *
 *     bun server/test/acceptance/openaiServer.ts
 *
 * - `exact`: usage in a last chunk with `choices: []`, half of the prompt's tokens cached
 * - `silent-usage`: no usage, whatever is asked
 * - `busy-once`: the first call gets 429, all others are answered
 * - `down`: always 503
 * - `endless`: goes on until the caller hangs up, a token every 10 ms: slow enough that its context is not full before
 *   a test on a busy machine has made its next call
 *
 * `GET /open` says how many endless streams are open.
 */

const WORDS = 20

interface Asked {
  readonly model: string
  readonly messages: readonly { readonly content: string }[]
  readonly stream?: boolean
  readonly max_tokens?: number
  readonly stream_options?: { readonly include_usage?: boolean }
}

let busyCalls = 0
let openStreams = 0

function answer(asked: Asked): Response {
  if (asked.stream !== true) return refuse(400, 'only streams are served here')
  if (asked.model === 'down') return refuse(503, 'down for good')
  if (asked.model === 'busy-once') {
    busyCalls += 1
    if (busyCalls === 1) return refuse(429, 'busy')
  }
  const events = asked.model === 'endless' ? endless() : finite(asked)
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      const { done, value } = await events.next()
      if (done) controller.close()
      else controller.enqueue(value)
    },
    async cancel() {
      await events.return(undefined)
    },
  })
  return new Response(body, { headers: { 'Content-Type': 'text/event-stream' } })
}

async function* finite(asked: Asked): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const words = Math.min(WORDS, asked.max_tokens ?? WORDS)
  yield chunk({ role: 'assistant', content: '' }, null)
  for (let word = 1; word <= words; word += 1) yield chunk({ content: `${word} ` }, null)
  yield chunk({}, words < WORDS ? 'length' : 'stop')
  if (asked.stream_options?.include_usage === true && asked.model !== 'silent-usage') yield usage(asked, words)
  yield event('[DONE]')
}

async function* endless(): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  openStreams += 1
  try {
    for (let word = 1; ; word += 1) {
      yield chunk({ content: `${word} ` }, null)
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  } finally {
    openStreams -= 1
  }
}

function usage({ messages }: Asked, completionTokens: number): Uint8Array<ArrayBuffer> {
  const promptTokens = messages.reduce((sum, { content }) => sum + content.split(' ').length, 0)
  return event(
    JSON.stringify({
      ...HEAD,
      choices: [],
      usage: {
        prompt_tokens: promptTokens,
        completion_tokens: completionTokens,
        total_tokens: promptTokens + completionTokens,
        prompt_tokens_details: { cached_tokens: Math.floor(promptTokens / 2) },
      },
    }),
  )
}

const HEAD = { id: 'provider', object: 'chat.completion.chunk', created: 1, model: 'whatever-the-provider-calls-it' }

function chunk(delta: object, finishReason: string | null): Uint8Array<ArrayBuffer> {
  return event(JSON.stringify({ ...HEAD, choices: [{ index: 0, delta, finish_reason: finishReason }] }))
}

function event(data: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`data: ${data}\n\n`)
}

function refuse(status: number, message: string): Response {
  return Response.json({ error: { message, type: 'server_error', code: null, param: null } }, { status })
}

const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  fetch: async (request) => {
    if (new URL(request.url).pathname === '/open') return Response.json(openStreams)
    if (new URL(request.url).pathname !== '/v1/chat/completions') return refuse(404, 'not here')
    return answer((await request.json()) as Asked)
  },
})
console.log(server.port)
process.stdin.on('end', () => process.exit()).resume()
