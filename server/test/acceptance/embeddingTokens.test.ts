/** `POST /embeddings` through the whole gateway: which reports of tokens by a provider are charged, and which are replaced. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Gateway, openGateway } from '../gateway.ts'

let gateway: Gateway
let provider: Server
/** The tokens that the server reports of the texts. */
let reportedTokens = 0

beforeAll(async () => {
  provider = createServer(async (request, response) => {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    const { input } = JSON.parse(Buffer.concat(parts).toString()) as { input: string[] }
    const data = input.map((_, index) => ({ index, embedding: [1] }))
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ data, usage: { prompt_tokens: reportedTokens, total_tokens: reportedTokens } }))
  })
  await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve))
  gateway = await openGateway({
    settings: `
providers:
  remote: { dialect: openai, base_url: "http://127.0.0.1:${(provider.address() as AddressInfo).port}/v1" }
models:
  - id: svc/remote
    modality: embedding
    context_length: 512
    pricing: { input_per_1m_tokens_cents: 1000000 }
    targets: [{ provider: remote, model: r }]
`,
  })
})
afterAll(async () => {
  await gateway?.close()
  provider.closeAllConnections()
  provider.close()
})

const english = 'The quick brown fox jumps over the lazy dog, and then some more of it. '.repeat(10)

/** Sends these texts to a server that reports so many tokens; gives what is charged. */
async function reporting(promptTokens: number, ...input: string[]) {
  reportedTokens = promptTokens
  const key = await gateway.customer({ cents: 100_000 })
  const response = await gateway.post(key, '/embeddings', { model: 'svc/remote', input })
  expect(response.status).toBe(200)
  const [charge] = await gateway.database.query<{ prompt: bigint; estimated: boolean }>(
    'select prompt_tokens as prompt, estimated from named_charges where organization_id = $1::uuid',
    [key.organizationId],
  )
  const prompt = Number(charge?.prompt)
  expect(await response.json()).toMatchObject({ usage: { prompt_tokens: prompt, total_tokens: prompt } })
  return { prompt, estimated: charge?.estimated }
}

test.each([0, 1, 80])(
  'a report of %d for some 170 is replaced by a count, and the operator is told',
  async (reported) => {
    const from = gateway.logs.length
    expect(await reporting(reported, english)).toEqual({ prompt: 171, estimated: true })
    const told = gateway.logs.slice(from).filter((line) => line.includes('reports too few tokens'))
    expect(told.map((line) => JSON.parse(line))).toMatchObject([
      { level: 'warn', target: 'remote/r', reported, counted: 171 },
    ])
    expect(told[0]).not.toContain('fox')
  },
)

test('a report of half as many as are counted is charged as it is', async () => {
  expect(await reporting(86, english)).toEqual({ prompt: 86, estimated: false })
})

test('a report by a server that reads no more of a text than its context is charged, whatever stands beside that text', async () => {
  expect(await reporting(512, english.repeat(20))).toEqual({ prompt: 512, estimated: false })
  const short = Array.from({ length: 40 }, () => 'Seven words are all that this has.')
  expect(await reporting(512 + 40 * 8, english.repeat(20), ...short)).toEqual({ prompt: 832, estimated: false })
  expect(await reporting(41, english.repeat(20), ...short)).toEqual({ prompt: 512 + 40 * 8, estimated: true })
})

// Counted by the tokenizer of all-MiniLM-L6-v2, a WordPiece with a vocabulary of English.
test.each([
  ['English', english, 172],
  ['Hindi', 'नमस्ते दुनिया, यह एक परीक्षण वाक्य है जो हिंदी में लिखा गया है। '.repeat(10), 412],
  ['Thai', 'สวัสดีชาวโลก นี่คือประโยคทดสอบที่เขียนเป็นภาษาไทยเพื่อดูจำนวนโทเค็น '.repeat(10), 22],
  ['Chinese', '今天天气很好，我们去公园散步吧。人工智能正在改变世界。'.repeat(10), 272],
  ['code', 'function add(a, b) {\n        return a + b; // sum\n}\n'.repeat(20), 342],
  ['blanks', ' '.repeat(5_000), 2],
  ['emoji', '😀🎉🚀'.repeat(200), 3],
  ['a hash', '0123456789abcdef'.repeat(100), 3],
])('a report of a WordPiece tokenizer for %s is charged as it is', async (_name, text, reported) => {
  expect(await reporting(reported, text)).toEqual({ prompt: reported, estimated: false })
  // Where it claims nothing it is not believed.
  expect(await reporting(0, text)).toMatchObject({ estimated: true })
})
