/**
 * The official `openai` client for Python, unchanged but for base URL and key. Installed by pip into a virtual
 * environment under node_modules/.cache, once; where Python or the package registry is missing, the test is skipped and
 * says why.
 */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { join } from 'node:path'
import { installPython, run } from '../python.ts'
import { costOf, type House, openHouse } from './house.ts'

setDefaultTimeout(60_000)

const VERSION = '3.52.0'

const installed = await installPython('openai', VERSION)
if ('problem' in installed) console.warn(`skipped, the Python client can't be installed: ${installed.problem}`)
const withPython = test.skipIf('problem' in installed)

let house: House

beforeAll(async () => {
  house = await openHouse()
})
afterAll(() => house?.close())

interface Answer {
  readonly text: string
  readonly finish: string
  readonly usage: {
    readonly prompt_tokens: number
    readonly completion_tokens: number
    /** Null where nothing was cached. */
    readonly prompt_tokens_details: { readonly cached_tokens: number } | null
  }
  readonly request_id?: string
}

withPython('answers, charges, the catalog and every class of error, as Python sees them', async () => {
  if ('problem' in installed) return
  const key = await house.customer()
  const program = join(import.meta.dirname, 'openaiClient.py')
  const { code, stdout, stderr } = await run([join(installed.bin, 'python'), program, house.server.url, key.key])
  expect([code, stderr]).toEqual([0, ''])
  const seen = JSON.parse(stdout)

  const answers: Answer[] = seen.answers
  const rows = await house.charges(key)
  expect(rows.slice(answers.length).map(({ model, completion }) => [model, completion])).toEqual([
    ['svc/vectors', 0n],
    ['svc/pictures', 0n],
  ])
  for (const [index, { usage, finish, text }] of answers.entries()) {
    expect(finish).toBe('stop')
    // The streamed answer is the whole one in pieces.
    expect(text).toBe(answers[index - (index % 2)]?.text ?? '')
    expect(rows[index]).toMatchObject({
      prompt: BigInt(usage.prompt_tokens),
      completion: BigInt(usage.completion_tokens),
      cached: BigInt(usage.prompt_tokens_details?.cached_tokens ?? 0),
      estimated: false,
      outcome: 'completed',
    })
    expect(rows[index]?.cost).toBe(costOf(rows[index] ?? { prompt: 0n, completion: 0n }))
  }
  expect(answers[0]?.request_id).toMatch(/^[0-9a-f]{32}$/)
  expect(seen.models).toContain('svc/sandbox')
  expect(seen.retrieved).toBe('svc/sandbox')
  expect(seen.wrong_key).toEqual(['AuthenticationError', 401, 'invalid_api_key', null])
  expect(seen.unknown_model).toEqual(['NotFoundError', 404, 'model_not_found', 'model'])
  expect(seen.unknown_model_streamed).toEqual(['APIError', null, 'model_not_found', 'model'])
  expect(seen.tools).toEqual(['BadRequestError', 400, 'unsupported_parameter', 'tools'])
  const { prompt_tokens: promptTokens, total_tokens: totalTokens, ...otherUsage } = seen.embedded.usage
  expect(seen.embedded).toMatchObject({ model: 'svc/vectors', indexes: [0, 1], same: true })
  expect([totalTokens, otherUsage]).toEqual([promptTokens, {}])
  expect(rows[answers.length]?.prompt).toBe(BigInt(promptTokens))
  expect(seen.embedded_unnamed).toEqual(['BadRequestError', 400, 'unsupported_parameter', 'encoding_format'])
  expect(seen.drawn).toEqual(['89504e470d0a1a0a', '89504e470d0a1a0a'])
  expect(seen.drawn_as_url).toEqual(['BadRequestError', 400, 'unsupported_parameter', 'response_format'])
  expect(rows[answers.length + 1]?.cost).toBe(8_000_000n)
  expect(seen.down).toEqual(['InternalServerError', 503, 'upstream_unavailable', null])
})
