/**
 * Keys, credentials, prompts and answers go through every path, good and bad, at the most talkative log level. After the
 * end none of them is found in what the server wrote: logs, errors, metrics, or any byte of its data directory.
 */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { chmod, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { killPostgres, openDirectory } from '../dataDirectory.ts'
import { END_OF_BODY, head, piece, type RawServer, rawServer } from '../rawServer.ts'
import { startServer, type TestServer } from '../server.ts'
import '../ggufEngine.ts'
import { writeTinyGguf } from '../tinyGguf.ts'

const LIMIT_MS = 120_000
const CREDENTIAL = 'canary-credential-5b1f0c'
const HEADER = 'canary-header-77ad21'
const PROMPT = 'canary prompt 90c4e2'
/** Told back to whoever asks for it, and to nobody else. */
const MODEL = 'canary model 2c9d41'
const ANSWER = 'canary answer 3fd8b7'
/** The client's own, and no business of anyone who reads a disk. */
const IDEMPOTENCY_KEY = 'canary idempotency 8e20aa'
const PROVIDER_ERROR = 'canary provider error 1e6a55'
/** The engine's answer to it is gibberish, and as secret: this keeps the answers. */
const gibberish: string[] = []
const GIBBERISH_TOKENS = 60
/** Looks like a key of ours and is none; clients send other people's too. */
const FOREIGN_KEY = 'svc_live_CanaryForeignKey0000000'

let provider: RawServer
/** The provider's behaviour in the next calls, in turn. */
const script: ('answer' | 'refuse' | 'break' | 'html' | 'silence')[] = []
let server: TestServer
let settings: string
/** Where every process of ours puts its temporary files. */
let temporary: string
let models: string
/** Everything that a client, or a scraper of the admin port, got to read, answers aside. */
let shown = ''
/** Standard output and standard error of every process of ours. */
const written: (() => string)[] = []

const chunk = (content: string) =>
  piece(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n`)
const ENDING = piece(
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })}\n\ndata: [DONE]\n\n`,
)

beforeAll(async () => {
  temporary = await mkdtemp(join(tmpdir(), 'secrets-'))
  // The database runs as somebody else where root runs the test.
  await chmod(temporary, 0o777)
  models = await mkdtemp(join(tmpdir(), 'models-'))
  provider = await rawServer((socket) => {
    const step = script.shift() ?? 'answer'
    const error = JSON.stringify({ error: { message: PROVIDER_ERROR } })
    if (step === 'silence') socket.write(Buffer.concat([Buffer.from(head()), chunk(ANSWER)]))
    else if (step === 'html') socket.end(`HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>${PROVIDER_ERROR}</p>`)
    else if (step === 'refuse') {
      socket.end(
        `HTTP/1.1 400 Bad\r\nContent-Type: application/json\r\nContent-Length: ${error.length}\r\n\r\n${error}`,
      )
    } else if (step === 'break') {
      socket.end(
        Buffer.concat([Buffer.from(head()), chunk(ANSWER), piece(`data: ${error}\n\n`), Buffer.from(END_OF_BODY)]),
      )
    } else socket.end(Buffer.concat([Buffer.from(head()), chunk(ANSWER), ENDING, Buffer.from(END_OF_BODY)]))
  })
  settings = `
log_level: debug
providers:
  real:
    dialect: openai
    base_url: "${provider.url}/v1"
    api_key_env: CANARY_KEY
    headers: { x-canary: { env: CANARY_HEADER } }
  simulated: { dialect: sandbox, first_token_ms: 0 }
  own: { dialect: gguf, file: "${writeTinyGguf(join(models, 'tiny.gguf'))}", sequences: 2, context_tokens: 2048 }
models:
  - id: svc/real
    context_length: 10000
    pricing: { input_per_1m_tokens_cents: 1, output_per_1m_tokens_cents: 1 }
    targets: [{ provider: real, model: real }]
  - id: svc/sandbox
    context_length: 10000
    pricing: { input_per_1m_tokens_cents: 1, output_per_1m_tokens_cents: 1 }
    targets: [{ provider: simulated, model: any }]
  - id: svc/own
    context_length: 2048
    pricing: { input_per_1m_tokens_cents: 1, output_per_1m_tokens_cents: 1 }
    targets: [{ provider: own, model: own }]
  - id: svc/words
    modality: embedding
    context_length: 2048
    pricing: { input_per_1m_tokens_cents: 1 }
    targets: [{ provider: simulated }]
  - id: svc/real-words
    modality: embedding
    context_length: 2048
    pricing: { input_per_1m_tokens_cents: 1 }
    targets: [{ provider: real, model: real }]
  - id: svc/own-words
    modality: embedding
    context_length: 2048
    pricing: { input_per_1m_tokens_cents: 1 }
    targets: [{ provider: own }]
  - id: svc/picture
    modality: image
    pricing: { per_image_cents: 1 }
    targets: [{ provider: simulated }]
  - id: svc/real-picture
    modality: image
    pricing: { per_image_cents: 1 }
    targets: [{ provider: real, model: real }]
`
  server = await start()
}, LIMIT_MS)

afterAll(async () => {
  await server.remove()
  provider.stop()
  for (const folder of [temporary, models]) await rm(folder, { recursive: true, force: true })
}, LIMIT_MS)

async function start(dataDir?: string): Promise<TestServer> {
  const started = await startServer({
    settings,
    environment: { CANARY_KEY: CREDENTIAL, CANARY_HEADER: HEADER, TMPDIR: temporary },
    ...(dataDir === undefined ? {} : { dataDir }),
  })
  written.push(started.output, started.errors)
  return started
}

let sent = 0

/**
 * Sends a body as it is, with an Idempotency-Key unless it may hang up, reads the answer as far as it comes, and keeps what is no
 * answer of a model.
 */
async function send(key: string, body: string | object, path = '/chat/completions', signal?: AbortSignal) {
  try {
    sent += 1
    // Without one a hang-up cancels the call, which is what is tried then.
    const once: Record<string, string> = signal === undefined ? { 'Idempotency-Key': `${IDEMPOTENCY_KEY} ${sent}` } : {}
    const response = await fetch(`${server.url}${path}`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${key}`, ...once },
      body: typeof body === 'string' ? body : JSON.stringify(body),
      ...(signal === undefined ? {} : { signal }),
    })
    const text = await response.text()
    shown += JSON.stringify([...response.headers])
    for (const line of text.split('\n')) if (response.status !== 200 || line.includes('"error"')) shown += `${line}\n`
    return { status: response.status, text }
  } catch {
    return { status: 0, text: '' }
  }
}

const messages = [{ role: 'user', content: PROMPT }]

async function goodAndBad(key: string): Promise<void> {
  for (const stream of [true, false]) {
    for (const step of ['answer', 'refuse', 'break', 'html'] as const) {
      script.push(step)
      const { status, text } = await send(key, { model: 'svc/real', stream, messages })
      expect(text.includes(ANSWER)).toBe(step === 'answer' || (step === 'break' && stream))
      expect(status).toBeGreaterThan(0)
    }
    await send(key, { model: 'svc/sandbox', stream, messages })
    await send(key, {
      model: 'svc/sandbox',
      stream,
      messages: [{ role: 'user', content: `[[sandbox x=1]] ${PROMPT}` }],
    })
    await send(key, { model: MODEL, stream, messages })
    await send(FOREIGN_KEY, { model: 'svc/real', stream, messages })
  }
  const refused: (string | object)[] = [
    `{"model": "svc/real", "messages": [{"role": "user", "content": "${PROMPT}`,
    `${PROMPT}`,
    { model: 'svc/real', messages: [{ role: PROMPT, content: PROMPT }] },
    { model: 'svc/real', messages: [{ role: 'user', content: { text: PROMPT } }] },
    { model: 'svc/real', messages: PROMPT },
    { model: 'svc/real', messages, temperature: PROMPT },
    { model: 'svc/real', messages: [{ role: 'user', content: PROMPT.repeat(2_000) }] },
    // A NUL, which PostgreSQL takes in no text.
    { model: `svc/\u0000${MODEL}`, messages },
  ]
  for (const body of refused) await send(key, body)
  await send(`${key}x`, { model: 'svc/real', messages })
  await send(key, {}, '/nowhere')
}

/** Embeddings and images: answered, refused here and by providers, answered with what makes no sense. */
async function wordsAndPictures(key: string): Promise<void> {
  for (const step of ['refuse', 'html', 'answer'] as const) {
    script.push(step, step)
    expect((await send(key, { model: 'svc/real-words', input: [PROMPT] }, '/embeddings')).status).not.toBe(200)
    expect((await send(key, { model: 'svc/real-picture', prompt: PROMPT }, '/images/generations')).status).not.toBe(200)
  }
  for (const model of ['svc/words', 'svc/own-words']) {
    expect((await send(key, { model, input: [PROMPT, 'x'], user: PROMPT }, '/embeddings')).status).toBe(200)
    expect((await send(key, { model, input: [PROMPT, 1] }, '/embeddings')).status).toBe(400)
  }
  expect((await send(key, { model: 'svc/own-words', input: PROMPT.repeat(2_000) }, '/embeddings')).status).toBe(400)
  expect((await send(key, { model: 'svc/picture', prompt: PROMPT }, '/images/generations')).status).toBe(200)
  expect((await send(key, { model: 'svc/picture', prompt: PROMPT, size: PROMPT }, '/images/generations')).status).toBe(
    422,
  )
  await send(key, { model: 'svc/picture', prompt: `[[sandbox x=1]] ${PROMPT}` }, '/images/generations')
}

/** The same through the engine: whole, streamed, left in the middle, refused, and too long for its context. */
async function throughTheEngine(key: string): Promise<void> {
  for (const stream of [true, false]) {
    const { text } = await send(key, {
      model: 'svc/own',
      stream,
      messages,
      max_tokens: GIBBERISH_TOKENS,
      temperature: 0,
    })
    const parts = stream ? text.split('\n').filter((line) => line.startsWith('data: {')) : [`data: ${text}`]
    const said = parts.map((line) => contentOf(JSON.parse(line.slice('data: '.length)))).join('')
    expect(said).toHaveLength(GIBBERISH_TOKENS)
    gibberish.push(said)
  }
  for (const content of [PROMPT.repeat(90), `<|im_end|>${PROMPT}`]) {
    await send(key, { model: 'svc/own', stream: false, messages: [{ role: 'user', content }], max_tokens: 5 })
  }
  const leaving = new AbortController()
  const left = fetch(`${server.url}/chat/completions`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: 'svc/own', stream: true, messages }),
    signal: leaving.signal,
  })
  await (await left).body?.getReader().read()
  leaving.abort()
}

interface ModelAnswer {
  readonly choices: readonly {
    readonly delta?: { readonly content?: string }
    readonly message?: { readonly content: string }
  }[]
}

function contentOf({ choices: [choice] }: ModelAnswer): string {
  return choice?.delta?.content ?? choice?.message?.content ?? ''
}

/** The database fails in every statement that a call makes. */
async function databaseErrors(key: string): Promise<void> {
  const database = await openDirectory(server.dataDir)
  await database.query('alter table api_keys rename to api_keys_away')
  const { key: unknown } = { key: FOREIGN_KEY }
  await send(unknown, { model: 'svc/real', messages })
  await database.query('alter table api_keys_away rename to api_keys')
  await database.query(`create function canary() returns trigger language plpgsql as
    $$ begin raise exception using errcode = '23514', message = 'refused, as the test asks'; end $$`)
  await database.query('create trigger canary before insert on charges for each row execute function canary()')
  await send(key, { model: 'svc/real', messages })
  await database.query('drop trigger canary on charges')
  await database.close()
}

async function killedInMidAnswer(key: string): Promise<void> {
  const seen = provider.requests.length
  script.push('silence', 'silence')
  const cut = [true, false].map((stream) => send(key, { model: 'svc/real', stream, messages }))
  const engine = send(key, { model: 'svc/own', stream: true, messages, max_tokens: 1_500 })
  await reached(seen + 2, ...cut)
  await server.kill()
  await killPostgres(server.dataDir)
  await Promise.all([...cut, engine])
}

async function hungUp(key: string): Promise<void> {
  const seen = provider.requests.length
  script.push('silence')
  const leaving = new AbortController()
  const left = send(key, { model: 'svc/real', stream: true, messages }, '/chat/completions', leaving.signal)
  await reached(seen + 1, left)
  leaving.abort()
  await left
}

/** Waits until the provider has seen so many requests. Throws when a call ends before, which then says why. */
async function reached(count: number, ...calls: Promise<{ status: number; text: string }>[]): Promise<void> {
  const ended = calls.map(async (call) => {
    const { status, text } = await call
    throw new Error(`a call that was to stay open ended with ${status}: ${text}`)
  })
  await Promise.race([provider.requested(count), ...ended])
}

async function countKeptAnswers(): Promise<number> {
  const database = await openDirectory(server.dataDir)
  const [row] = await database.query<{ count: bigint }>(
    'select count(*) as count from idempotent_attempts where body is not null',
  )
  await database.close()
  return Number(row?.count)
}

async function filesBeneath(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
}

function expectNone(text: string, secrets: readonly string[], where: string): void {
  const lower = text.toLowerCase()
  for (const secret of secrets) {
    if (lower.includes(secret.toLowerCase())) throw new Error(`'${secret}' is in ${where}: ${around(text, secret)}`)
  }
}

function around(text: string, secret: string): string {
  const at = text.toLowerCase().indexOf(secret.toLowerCase())
  return JSON.stringify(text.slice(Math.max(0, at - 200), at + 200))
}

test(
  'keys, credentials, prompts and answers leave no trace',
  async () => {
    const { firstKey } = server
    const made = await server.command('keys', 'create', '--org', 'default', '--scope', 'full_access')
    const key = String(made['key'])
    await goodAndBad(firstKey)
    await goodAndBad(key)
    await wordsAndPictures(key)
    await throughTheEngine(key)
    await hungUp(key)
    await databaseErrors(key)
    shown += await (await fetch(`${server.adminUrl}/metrics`)).text()
    shown += await (await fetch(`${server.adminUrl}/ready`)).text()
    await killedInMidAnswer(key)

    server = await start(server.dataDir)
    await goodAndBad(key)
    await wordsAndPictures(key)
    await throughTheEngine(key)
    shown += await (await fetch(`${server.adminUrl}/metrics`)).text()
    const kept = await countKeptAnswers()
    expect(await server.stop()).toBe(0)

    expect(provider.requests.join('')).toContain(CREDENTIAL)
    expect(provider.requests.join('')).toContain(HEADER)
    expect(shown).toContain('"error"')
    const keys = [firstKey, key].flatMap((each) => [each, each.slice('svc_live_'.length)])
    const words = [PROMPT, ANSWER, PROVIDER_ERROR, IDEMPOTENCY_KEY]
    const secrets = [...keys, FOREIGN_KEY, CREDENTIAL, HEADER, ...words, ...gibberish]
    expectNone(shown, secrets, 'what clients and scrapers saw')

    const output = written.map((read) => read()).join('\n')
    expect(output).toContain('"answered"')
    const unspoken = [...secrets, MODEL]
    expectNone(output, unspoken, "the server's output")
    // The only place that the first key is in, until the operator deletes it.
    const firstKeyFile = join(server.dataDir, 'first-key')
    expect(await readFile(firstKeyFile, 'utf8')).toBe(`${firstKey}\n`)
    await rm(firstKeyFile)

    // Otherwise there was nothing to find.
    expect(kept).toBeGreaterThan(5)
    let holdsCharges = false
    expect(output).toContain('the GGUF engine is ready')
    for (const file of [...(await filesBeneath(server.dataDir)), ...(await filesBeneath(temporary))]) {
      const content = await readFile(file, 'latin1')
      holdsCharges ||= content.includes('svc/real')
      expectNone(content, unspoken, file)
    }
    // Otherwise the search has looked in the wrong place.
    expect(holdsCharges).toBe(true)
  },
  LIMIT_MS,
)
