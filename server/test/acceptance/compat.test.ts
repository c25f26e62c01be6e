/** C9: what each switch for leniency lets through, and that it lets through nothing else. `chatFields.test.ts` has them off. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from './ask.ts'
import { chat, SETTINGS, words } from './catalog.ts'
import { expectRefusal } from './refusals.ts'

const path = '/chat/completions'
const param = 'max_completion_tokens'
let renaming: AskedGateway
let neutral: AskedGateway
let key: string

beforeAll(async () => {
  renaming = await openAskedGateway({ settings: `compat: { max_completion_tokens: true }\n${SETTINGS}` })
  neutral = await openAskedGateway({ settings: `compat: { neutral_parameters: true }\n${SETTINGS}`, beside: renaming })
  key = (await renaming.customer()).key
})
afterAll(async () => {
  await neutral.close()
  await renaming.close()
})

describe('embeddings_base64', () => {
  test('gives the same vectors, and floats where nothing is said', async () => {
    const base64 = await openAskedGateway({
      settings: `compat: { embeddings_base64: true }\n${SETTINGS}`,
      beside: renaming,
    })
    const ask = async (more: object) => {
      const { json } = await base64.ask({ path: '/embeddings', key, body: words({ dimensions: 8, ...more }) })
      return (json as { data: { embedding: unknown }[] }).data[0]?.embedding
    }
    const floats = (await ask({})) as number[]
    const bytes = Buffer.from(String(await ask({ encoding_format: 'base64' })), 'base64')
    expect(floats).toHaveLength(8)
    expect(Array.from({ length: 8 }, (_, index) => bytes.readFloatLE(index * 4))).toEqual(floats.map(Math.fround))
    expect(await ask({ encoding_format: 'float' })).toEqual(floats)
    await base64.close()
  })
})

describe('max_completion_tokens', () => {
  const ask = (body: object) => renaming.ask({ path, key, body })

  test('limits the answer as max_tokens does, and may stand beside it when both are the same', async () => {
    for (const limits of [{ [param]: 2 }, { [param]: 2, max_tokens: 2 }, { [param]: 2, max_tokens: null }]) {
      const { json } = await ask(chat(limits))
      expect(json).toMatchObject({ choices: [{ finish_reason: 'length' }], usage: { completion_tokens: 2 } })
    }
  })

  test('two limits that differ are refused', async () => {
    expectRefusal(await ask(chat({ [param]: 2, max_tokens: 3 })), 'B', {
      status: 422,
      code: 'validation_failed',
      param,
    })
  })

  test.each([0, -1, 1.5, '5', {}])('%p is refused as max_tokens would be', async (value) => {
    expectRefusal(await ask(chat({ [param]: value })), 'B', { status: 422, code: 'validation_failed', param })
  })

  test('stands in the description, and only there where it is on', () => {
    const properties = ({ description }: AskedGateway) => JSON.stringify(description).includes(`"${param}":{`)
    expect([properties(renaming), properties(neutral)]).toEqual([true, false])
  })

  test('nothing else is let through', async () => {
    const refused = await ask(chat({ [param]: 2, n: 1 }))
    expectRefusal(refused, 'B', { status: 400, code: 'unsupported_parameter', param: 'n' })
  })
})

describe('text_parts', () => {
  const text = (said: string, more: object = {}) => ({ type: 'text', text: said, ...more })
  const ofParts = (content: unknown) => chat({ messages: [{ role: 'user', content }] })
  let parts: AskedGateway
  beforeAll(async () => {
    const settings = `compat: { text_parts: true, max_completion_tokens: true }\n${SETTINGS.replace(/^body_.*$/gm, '')}`
    parts = await openAskedGateway({ settings, beside: renaming })
  })
  afterAll(() => parts.close())

  test('texts of parts are joined, and counted and charged as the one string', async () => {
    const answers = []
    for (const content of ['What is a toll gate?', [text('What is a '), text('toll gate?', { annotations: null })]]) {
      const response = await parts.post({ ...(await parts.customer()), key }, path, ofParts(content))
      const { choices, usage } = (await response.json()) as { choices: unknown; usage: unknown }
      answers.push([response.status, choices, usage, response.headers.get('Svc-Cost-Microcents')])
    }
    expect(answers[0]?.[0]).toBe(200)
    expect(answers[1]).toEqual(answers[0] ?? [])
  })

  test.each([
    [[]],
    [[text('a'), { type: 'image_url', image_url: { url: 'https://example.com/a.png' } }]],
    [[text('a', { cache_control: { type: 'ephemeral' } })]],
    [[{ type: 'text' }]],
    [['a']],
    [Array.from({ length: 10_001 }, () => text(''))],
  ])('other content is refused, with what to do (%#)', async (content) => {
    const answer = await parts.ask({ path, key, body: ofParts(content) })
    expectRefusal(answer, 'B', { status: 422, code: 'validation_failed', param: 'messages[0].content' })
    expect(answer.text).toContain('send the text as one string')
  })

  test('stand in the description, and only there where they are on', () => {
    const describes = ({ description }: AskedGateway) => JSON.stringify(description).includes('ChatMessageOfParts')
    expect([describes(parts), describes(renaming)]).toEqual([true, false])
  })

  test('where the switch is off, the refusal says what to do', async () => {
    const answer = await renaming.ask({ path, key, body: ofParts([text('a')]) })
    expectRefusal(answer, 'B', { status: 422, code: 'validation_failed', param: 'messages[0].content' })
    expect(answer.text).toContain('a list of parts is not supported; send the text as one string.')
  })
})

describe('neutral parameters', () => {
  const ask = (body: object) => neutral.ask({ path, key, body })
  const values: Readonly<
    Record<string, { readonly accepted: readonly unknown[]; readonly refused: readonly unknown[] }>
  > = {
    frequency_penalty: { accepted: [0], refused: [0.1, '0'] },
    functions: { accepted: [[]], refused: [[{}]] },
    logit_bias: { accepted: [{}], refused: [{ 1: 5 }, []] },
    logprobs: { accepted: [false], refused: [true] },
    metadata: { accepted: [{}], refused: [{ a: 'b' }] },
    modalities: { accepted: [['text']], refused: [['text', 'audio'], []] },
    n: { accepted: [1], refused: [2, '1', true] },
    presence_penalty: { accepted: [0], refused: [-1] },
    response_format: { accepted: [{ type: 'text' }], refused: [{ type: 'json_object' }, { type: 'text', a: 1 }] },
    service_tier: { accepted: ['auto', 'default'], refused: ['flex'] },
    stop: { accepted: [[]], refused: ['x', ['x'], ''] },
    store: { accepted: [false], refused: [true] },
    tool_choice: { accepted: ['auto', 'none'], refused: ['required'] },
    tools: { accepted: [[]], refused: [[{}], {}] },
    top_logprobs: { accepted: [0], refused: [1] },
    top_p: { accepted: [1], refused: [0.9] },
  }

  test('all of them together change nothing', async () => {
    const all = Object.fromEntries(Object.entries(values).map(([name, { accepted }]) => [name, accepted[0]]))
    const [plain, laden] = [await ask(chat()), await ask(chat(all))]
    const contentOf = ({ json }: { json: unknown }) => (json as { choices: unknown }).choices
    expect(laden.status).toBe(200)
    expect(contentOf(laden)).toEqual(contentOf(plain))
  })

  test.each(Object.keys(values))('%s with a value that changes nothing, and with others', async (name) => {
    const { accepted = [], refused = [] } = values[name] ?? {}
    for (const value of accepted) expect((await ask(chat({ [name]: value }))).status).toBe(200)
    for (const value of refused) {
      const answer = await ask(chat({ [name]: value }))
      expectRefusal(answer, 'B', { status: 400, code: 'unsupported_parameter', param: name })
    }
  })

  test.each(['seed', 'user', 'top_k', param, 'reasoning_effort', '__proto__'])(
    '%s is refused as ever',
    async (name) => {
      const body = JSON.stringify(chat()).replace('{', `{"${name}":0,"n":1,`)
      const answer = await neutral.ask({ path, key, body })
      expectRefusal(answer, 'B', { status: 400, code: 'unsupported_parameter', param: name })
    },
  )

  test('inside messages nothing is let through', async () => {
    const answer = await ask(chat({ messages: [{ role: 'user', content: 'x', n: 1 }] }))
    expectRefusal(answer, 'B', { status: 400, code: 'unsupported_parameter', param: 'messages[0].n' })
  })
})
