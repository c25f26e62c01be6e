import { beforeEach, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { fc } from '../../../test/properties.ts'
import { SILENCE } from '../../../test/silence.ts'
import type { ChatCall, ChatEvent, ProviderFailure } from '../dialect/spec.ts'
import { createClipWork } from './clipWork.ts'
import { planOf } from './plan.ts'
import { sandboxProvider } from './sandbox.ts'
import type { SandboxSettings } from './settings.ts'
import { countTokens } from './tokens.ts'

const AT_ONCE: SandboxSettings = {
  firstTokenMs: 0,
  tokensPerSecond: null,
  replyTokens: null,
  videoSecondsPerSecond: null,
}

const clips = createClipWork(SILENCE)
let clock: TurnedClock
beforeEach(() => {
  clock = new TurnedClock()
})

function ask(content: string, maxTokens: number | null = null): ChatCall {
  return { model: 'talk', messages: [{ role: 'user', content }], maxTokens, outputTokens: 1_000, temperature: null }
}

interface Seen {
  text: string
  readonly events: ChatEvent[]
  failure: ProviderFailure | null
}

/** Calls the sandbox and keeps what has come so far in the result, while the clock is turned. */
function start(call: ChatCall, settings = AT_ONCE, signal = new AbortController().signal) {
  const seen: Seen = { text: '', events: [], failure: null }
  const over = (async () => {
    try {
      for await (const event of await sandboxProvider({ name: 's', settings, clock, clips }).chat(call, signal, 0)) {
        seen.events.push(event)
        if (event.kind === 'text') seen.text += event.text
      }
    } catch (error) {
      seen.failure = error as ProviderFailure
    }
  })()
  return { seen, over }
}

async function run(call: ChatCall, settings = AT_ONCE): Promise<Seen> {
  const { seen, over } = start(call, settings)
  await over
  return seen
}

test('an answer says that it is simulated and talks about the last user message', async () => {
  const { text, events } = await run(ask('What is a tollgate?'))
  expect(text).toContain('simulated')
  expect(text).toContain('What is a tollgate?')
  expect(events.slice(-2)).toEqual([
    { kind: 'finish', reason: 'stop' },
    { kind: 'usage', usage: { promptTokens: 6, cachedPromptTokens: 0, completionTokens: countTokens(text) } },
  ])
})

test('the same call gets the same answer; another conversation may get another', async () => {
  expect(await run(ask('Hi'))).toEqual(await run(ask('Hi')))
  const texts = new Set(
    ['a', 'b', 'c', 'd', 'e', 'f'].map((word) => planOf(ask(word), AT_ONCE)).map((plan) => plan.tokens.length),
  )
  expect(texts.size).toBeGreaterThan(1)
})

test('every token is one event, counted exactly, and never more than max_tokens', () => {
  fc.assert(
    fc.property(
      fc.string(),
      fc.option(fc.integer({ min: 1, max: 200 })),
      fc.option(fc.nat(300)),
      fc.nat(20),
      (content, maxTokens, replyTokens, reasoning) => {
        fc.pre(!content.includes('[[sandbox'))
        const call = ask(`${content} [[sandbox reasoning_tokens=${reasoning}]]`, maxTokens)
        const plan = planOf(call, { ...AT_ONCE, replyTokens })
        const text = plan.tokens.map((event) => (event.kind === 'text' ? event.text : '')).join('')
        const reasoned = plan.tokens.filter((event) => event.kind === 'reasoning').length
        expect(plan.usage?.completionTokens).toBe(plan.tokens.length)
        expect(countTokens(text) + reasoned).toBe(plan.tokens.length)
        expect(plan.tokens.length).toBeLessThanOrEqual(maxTokens ?? 1_000)
        if (replyTokens !== null) {
          expect(plan.tokens.length).toBe(Math.min(maxTokens ?? 1_000, reasoning + replyTokens))
          expect(plan.finish).toBe(reasoning + replyTokens > (maxTokens ?? 1_000) ? 'length' : 'stop')
        }
      },
    ),
  )
})

test('tokens come at the pace that is set', async () => {
  const { seen, over } = start(ask('Hi'), {
    firstTokenMs: 200,
    tokensPerSecond: 10,
    replyTokens: 3,
    videoSecondsPerSecond: null,
  })
  await clock.turn(199)
  expect(seen.events).toHaveLength(0)
  await clock.turn(1)
  expect(seen.events).toHaveLength(1)
  await clock.turn(100)
  expect(seen.events).toHaveLength(2)
  await clock.turn(100)
  await over
  expect(seen.events).toHaveLength(5)
  expect(clock.pending).toBe(0)
})

test('a directive goes before the settings', async () => {
  const asked =
    '[[sandbox tokens=2 first_token_ms=0 tokens_per_second=0 prompt_tokens=1000 cached_tokens=200 finish=content_filter]]'
  const { events } = await run(ask(asked), {
    firstTokenMs: 60_000,
    tokensPerSecond: 1,
    replyTokens: 50,
    videoSecondsPerSecond: null,
  })
  expect(events.map((event) => event.kind)).toEqual(['text', 'text', 'finish', 'usage'])
  expect(events.slice(2)).toEqual([
    { kind: 'finish', reason: 'content_filter' },
    { kind: 'usage', usage: { promptTokens: 1_000, cachedPromptTokens: 200, completionTokens: 2 } },
  ])
})

test('only the last user message directs', async () => {
  const call = ask('[[sandbox tokens=1]]')
  const messages = [...call.messages, { role: 'assistant' as const, content: '[[sandbox tokens=2]]' }]
  expect(planOf({ ...call, messages }, AT_ONCE).tokens).toHaveLength(1)
  const later = [...messages, { role: 'user' as const, content: 'and now?' }]
  expect(planOf({ ...call, messages: later }, AT_ONCE).tokens.length).toBeGreaterThan(2)
})

test('usage may be left out, and an empty answer has an end', async () => {
  const { events } = await run(ask('[[sandbox tokens=0 no_usage]]'))
  expect(events).toEqual([{ kind: 'finish', reason: 'stop' }])
})

const failures: [string, number, object][] = [
  ['[[sandbox fail=unavailable]]', 0, { kind: 'unavailable', mayFailOver: true }],
  ['[[sandbox fail=timeout]]', 0, { kind: 'timeout', mayFailOver: true }],
  ['[[sandbox fail=rejected]]', 0, { kind: 'rejected', mayFailOver: false }],
  ['[[sandbox fail=faulty fail_after=3]]', 3, { kind: 'faulty', mayFailOver: false }],
  ['[[sandbox fail=unavailable fail_after=3]]', 3, { kind: 'unavailable', mayFailOver: false }],
  ['[[sandbox tokens=5 fail=faulty fail_after=99]]', 5, { kind: 'faulty' }],
  ['[[sandbox tokns=5]]', 0, { kind: 'rejected' }],
  ['[[sandbox prompt_tokens=1 cached_tokens=2]]', 0, { kind: 'rejected' }],
]
test.each(failures)('%s', async (directive, tokens, failure) => {
  const seen = await run(ask(directive))
  expect(seen.events).toHaveLength(tokens)
  expect(seen.failure).toMatchObject(failure)
})

test('a failure may be a setting, and comes at its time', async () => {
  const { seen, over } = start(ask('Hi'), { ...AT_ONCE, firstTokenMs: 70, failure: { kind: 'faulty', afterTokens: 0 } })
  await clock.turn(69)
  expect(seen.failure).toBeNull()
  await clock.turn(1)
  await over
  expect(seen.failure).toMatchObject({ kind: 'faulty' })
})

test.each([
  ['before the first token', '[[sandbox first_token_ms=1000]]', 0],
  ['between tokens', '[[sandbox tokens=9 tokens_per_second=1]]', 1],
  ['in a silence', '[[sandbox silent_after=2]]', 2],
])('an abort %s ends the answer at once', async (_when, directive, tokens) => {
  const controller = new AbortController()
  const { seen, over } = start(ask(directive), AT_ONCE, controller.signal)
  await clock.turn(500)
  expect(seen.events).toHaveLength(tokens)
  controller.abort('left')
  await over
  expect(seen.failure).toBe('left' as never)
  expect(clock.pending).toBe(0)
})

test('the encoder of clips is loaded by its thread alone: it brings handlers of uncaught errors for the whole process', () => {
  expect(process.listenerCount('unhandledRejection')).toBe(0)
})
