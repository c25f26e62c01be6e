import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { type Fault, type House, openHouse, openTill, type Till, withFaults } from '../../test/moneyHouse.ts'
import { finish, scriptedAnswer, text, usage } from '../../test/scriptedAnswer.ts'
import { SILENCE } from '../../test/silence.ts'
import { createCatalog, type Model, type Served, tierOf } from '../catalog/model.ts'
import type { FlatTokenPrice } from '../catalog/price.ts'
import { DEFAULT_DEADLINES } from '../catalog/upstream.ts'
import { SECOND_MS } from '../kernel/time.ts'
import { readBalance } from '../money/balance.ts'
import { Health } from '../routing/health.ts'
import { type ChatEvent, type Upstream, UpstreamFailure } from '../upstream/spec.ts'
import { complete } from './complete.ts'
import type { ChatDependencies } from './dependencies.ts'
import type { ChatReply, StreamedPart } from './reply.ts'
import { countText } from './tokens.ts'

const NOON_MS = Date.UTC(2030, 0, 15, 12)
/** A token costs a micro-cent, of prompt and answer alike. */
const PRICE: FlatTokenPrice = {
  kind: 'tokens',
  inputMicrocents: 1_000_000n,
  outputMicrocents: 1_000_000n,
  cachedInputMicrocents: null,
}
const TIER = tierOf('serverless', PRICE, [{ upstream: 'mock', model: 'test' }])
const MODEL: Model = {
  id: 'svc/test',
  modality: 'chat',
  status: 'active',
  aliases: [],
  ownedBy: 'test',
  author: null,
  contextTokens: 100_000,
  maxOutputTokens: 50_000,
  hiddenReasoningTokens: 0,
  createdSeconds: null,
  fineTunable: false,
  fineTuneBaseModel: null,
  parameters: [],
  planCovered: false,
  supportedParameters: [],
  usageFactorThousandths: 1_000,
  serverless: TIER,
  economy: null,
}
const SERVED: Served = { model: MODEL, tier: TIER }
const KEY = '00000000-0000-4000-8000-000000000001'
/** What "hi" can come to: 2 bytes, 64 for the template and 16 for its message. */
const PROMPT_AT_MOST = 82

let house: House
beforeAll(async () => {
  house = await openHouse(new TurnedClock(NOON_MS))
})
afterAll(() => house.drop())

interface Stage {
  readonly till: Till
  readonly clock: TurnedClock
  readonly organization: string
  readonly client: AbortController
  /** How many calls reached the upstream. */
  readonly asked: () => number
  /** Whether the last call's upstream was told to stop. */
  readonly cancelled: () => boolean
  fault: Fault
  call(more?: { stream?: boolean; maxTokens?: number | null }): ReturnType<typeof complete>
  balance(): Promise<bigint>
  /** Nothing is held, and the books agree. */
  expectClean(): Promise<void>
}

type Script = readonly (ChatEvent | Error | (() => Promise<void> | void))[]

async function stage(credit: bigint, script: (stage: Stage) => Script | Error): Promise<Stage> {
  const clock = new TurnedClock(NOON_MS)
  const organization = await house.organization(credit)
  const till = openTill(
    withFaults(house.database, () => made.fault),
    0,
    clock,
  )
  let asked = 0
  let last: AbortSignal | null = null
  const upstream: Upstream = {
    name: 'mock',
    async chat(_, signal) {
      asked += 1
      last = signal
      const steps = script(made)
      if (steps instanceof Error) throw steps
      return scriptedAnswer(steps)
    },
  }
  const client = new AbortController()
  const dependencies: ChatDependencies = {
    clock,
    log: SILENCE,
    money: till,
    catalog: () => createCatalog([MODEL], [], DEFAULT_DEADLINES),
    targets: () => [{ upstream, model: 'test' }],
    health: new Health(clock, 5),
    random: () => 0.5,
    // In this thread, so that a turned clock does not run ahead of it.
    tokenCounter: {
      waiting: 0,
      count: async (texts) => texts.reduce((sum, text) => sum + countText(text), 0),
      close: async () => {},
    },
  }
  const made: Stage = {
    till,
    clock,
    organization,
    client,
    asked: () => asked,
    cancelled: () => last?.aborted === true,
    fault: 'none',
    call: ({ stream = false, maxTokens = null } = {}) =>
      complete(
        dependencies,
        { traceparent: null, organizationId: organization, keyId: KEY },
        SERVED,
        {
          model: MODEL.id,
          messages: [{ role: 'user', content: 'hi' }],
          stream,
          includeUsage: true,
          maxTokens,
          temperature: null,
        },
        client.signal,
      ),
    balance: () => readBalance(house.database, organization),
    async expectClean() {
      expect(till.wallet(organization).heldMicrocents).toBe(0n)
      expect(till.wallet(organization).unpostedMicrocents).toBe(0n)
      expect([till.waitingCalls, till.writer.backlog, clock.pending]).toEqual([0, 0, 0])
      expect(await house.imbalances()).toEqual([])
    },
  }
  return made
}

async function replyOf(called: ReturnType<typeof complete>): Promise<ChatReply> {
  const answer = await called
  if (!answer.ok) throw new Error(`refused: ${answer.refusal.code}`)
  return answer.value
}

async function partsOf(called: ReturnType<typeof complete>): Promise<StreamedPart[]> {
  const reply = await replyOf(called)
  if (reply.kind !== 'streamed') throw new Error('not streamed')
  const parts: StreamedPart[] = []
  for await (const part of reply.parts) parts.push(part)
  return parts
}

const tokens = (count: number) => Array.from({ length: count }, () => text('tok '))
const WHOLE: Script = [text('Hello'), text(' you'), finish(), usage(20, 2)]

async function outcomeOf(organization: string): Promise<unknown[]> {
  return house.database.query(
    'select outcome, estimated, completion_tokens from charges where organization_id = $1::uuid',
    [organization],
  )
}

test('an answer is charged as reported, before its last part is out', async () => {
  const here = await stage(1_000_000n, () => WHOLE)
  const whole = await replyOf(here.call())
  expect(whole).toMatchObject({ kind: 'whole', text: 'Hello you', finishReason: 'stop' })
  expect(await here.balance()).toBe(1_000_000n - 22n)

  const reply = await replyOf(here.call({ stream: true }))
  if (reply.kind !== 'streamed') throw new Error('not streamed')
  for await (const part of reply.parts) {
    expect(await here.balance()).toBe(1_000_000n - (part.kind === 'end' ? 44n : 22n))
  }
  await here.expectClean()
})

test('usage that the upstream does not report is counted and marked as estimated', async () => {
  const here = await stage(1_000_000n, () => [text('one two three'), finish()])
  const reply = await replyOf(here.call())
  expect(reply.kind === 'whole' && reply.usage.completionTokens).toBe(3)
  expect(await outcomeOf(here.organization)).toEqual([{ outcome: 'completed', estimated: true, completion_tokens: 3n }])
  await here.expectClean()
})

test('an implausible usage is not charged; what was generated is', async () => {
  const here = await stage(1_000_000n, () => [text('one two three'), finish(), usage(10, 100_001)])
  await replyOf(here.call())
  expect(await outcomeOf(here.organization)).toEqual([{ outcome: 'completed', estimated: true, completion_tokens: 3n }])
  expect(await here.balance()).toBeGreaterThan(999_900n)
  await here.expectClean()
})

test('a stream whose money runs out ends with an error event, charged so far (C6)', async () => {
  const here = await stage(600n, () => [...tokens(5_000), finish(), usage(20, 5_000)])
  const parts = await partsOf(here.call({ stream: true }))
  expect(parts.at(-1)).toMatchObject({ kind: 'error', refusal: { code: 'insufficient_balance' } })
  expect(parts.filter(({ kind }) => kind === 'end')).toEqual([])
  expect(here.cancelled()).toBe(true)
  expect(await outcomeOf(here.organization)).toMatchObject([{ outcome: 'cut' }])
  const balance = await here.balance()
  expect(balance).toBeGreaterThanOrEqual(0n)
  expect(balance).toBeLessThan(200n)
  await here.expectClean()
})

test('a JSON answer whose money runs out is given as far as it came, with finish_reason length (C6)', async () => {
  const here = await stage(600n, () => [...tokens(5_000), finish(), usage(20, 5_000)])
  const reply = await replyOf(here.call())
  expect(reply).toMatchObject({ kind: 'whole', finishReason: 'length' })
  expect(reply.kind === 'whole' && reply.text.startsWith('tok tok ')).toBe(true)
  expect(await outcomeOf(here.organization)).toMatchObject([{ outcome: 'cut' }])
  expect(await here.balance()).toBeGreaterThanOrEqual(0n)
  await here.expectClean()
})

test('money that does not cover the first piece is a 402 and no charge, not a client that has gone', async () => {
  const here = await stage(400n, () => [text('word '.repeat(2_000)), finish(), usage(20, 2_000)])
  expect(await here.call()).toMatchObject({ ok: false, refusal: { code: 'insufficient_balance' } })
  const parts = await partsOf(here.call({ stream: true }))
  expect(parts).toMatchObject([{ kind: 'error', refusal: { code: 'insufficient_balance' } }])
  expect(await here.balance()).toBe(400n)
  await here.expectClean()
})

test('a balance that does not cover the prompt and a step is a 402, and nothing is sent upstream', async () => {
  const here = await stage(BigInt(PROMPT_AT_MOST + 9), () => WHOLE)
  expect(await here.call({ maxTokens: 10 })).toMatchObject({ ok: false, refusal: { code: 'insufficient_balance' } })
  expect(here.asked()).toBe(0)
  expect(await replyOf(here.call({ maxTokens: 9 }))).toMatchObject({ kind: 'whole' })
  await here.expectClean()
})

test('calls that come at once never spend more than there is', async () => {
  const here = await stage(1_500n, () => [...tokens(200), finish('length'), usage(PROMPT_AT_MOST, 200)])
  const answers = await Promise.all(Array.from({ length: 20 }, () => here.call({ maxTokens: 200 })))
  // Each costs exactly its worst case of 282: five fit.
  expect(answers.filter(({ ok }) => ok).length).toBe(5)
  for (const answer of answers) {
    if (!answer.ok) expect(answer.refusal.code).toBe('insufficient_balance')
  }
  expect(here.asked()).toBe(5)
  expect(await here.balance()).toBe(1_500n - 5n * 282n)
  await here.expectClean()
})

test('while the database is away calls get 503 and nothing is sent upstream', async () => {
  const here = await stage(1_000_000n, () => WHOLE)
  here.fault = 'before'
  expect(await here.call()).toMatchObject({
    ok: false,
    refusal: { code: 'upstream_unavailable', retryAfterSeconds: 1 },
  })
  expect(here.asked()).toBe(0)
  here.fault = 'none'
  await here.expectClean()
})

test('an answer waits for its charge however long the database is away, and new calls get 503 meanwhile', async () => {
  const here = await stage(1_000_000n, (of) => [
    text('Hello'),
    () => {
      of.fault = 'after'
    },
    finish(),
    usage(20, 2),
  ])
  let answered = false
  const called = here.call().then((answer) => {
    answered = true
    return answer
  })
  while (here.till.writer.backlog === 0) await house.database.query('select 1')
  for (let second = 0; second < 4; second += 1) {
    await here.clock.turn(SECOND_MS)
    await house.database.query('select 1')
  }
  expect(answered).toBe(false)
  expect(await here.call()).toMatchObject({ ok: false, refusal: { code: 'upstream_unavailable' } })
  expect(here.asked()).toBe(1)
  here.fault = 'none'
  while (!answered) await here.clock.turn(SECOND_MS)
  expect(await called).toMatchObject({ ok: true, value: { text: 'Hello' } })
  expect(await here.balance()).toBe(1_000_000n - 22n)
  await here.expectClean()
})

test('a stream that can get no more money because the database is away does not tell the client that it is poor', async () => {
  const here = await stage(100_000n, (of) => [
    text('a '),
    () => {
      of.fault = 'before'
      of.till.wallet(of.organization).grantedMicrocents = of.till.wallet(of.organization).heldMicrocents
    },
    ...tokens(60_000),
  ])
  const reply = await replyOf(here.call({ stream: true, maxTokens: 300 }))
  if (reply.kind !== 'streamed') throw new Error('not streamed')
  let last: StreamedPart | undefined
  const reading = (async () => {
    for await (const part of reply.parts) last = part
  })()
  let done = false
  void reading.then(() => {
    done = true
  })
  for (let look = 0; look < 40; look += 1) await here.clock.turn(SECOND_MS)
  here.fault = 'none'
  while (!done) await here.clock.turn(SECOND_MS)
  expect(last).toMatchObject({ kind: 'error', refusal: { code: 'upstream_unavailable' } })
  await here.expectClean()
})

test('an upstream that never answers costs nothing', async () => {
  const here = await stage(1_000_000n, () => new UpstreamFailure('unavailable', 'refused', { mayFailOver: true }))
  for (const stream of [false, true]) {
    expect(await here.call({ stream })).toMatchObject({ ok: false, refusal: { code: 'upstream_unavailable' } })
  }
  expect(await here.balance()).toBe(1_000_000n)
  await here.expectClean()
})

test('an upstream that breaks off: a stream is charged for what it gave, a JSON answer not (C5)', async () => {
  const here = await stage(1_000_000n, () => [text('one'), text(' two'), new UpstreamFailure('faulty', 'broken')])
  expect(await here.call()).toMatchObject({ ok: false, refusal: { code: 'upstream_error' } })
  expect(await here.balance()).toBe(1_000_000n)
  const parts = await partsOf(here.call({ stream: true }))
  expect(parts.at(-1)).toMatchObject({ kind: 'error', refusal: { code: 'upstream_error' } })
  expect(await outcomeOf(here.organization)).toEqual([
    { outcome: 'interrupted', estimated: true, completion_tokens: 2n },
  ])
  await here.expectClean()
})

test('who hangs up before the first token pays nothing, and after it for what was generated', async () => {
  const before = await stage(1_000_000n, (of) => [() => of.client.abort(new Error('gone')), ...tokens(5)])
  expect((await before.call({ stream: true })).ok).toBe(false)
  expect(await before.balance()).toBe(1_000_000n)
  await before.expectClean()

  const after = await stage(1_000_000n, () => [text('one'), text(' two'), ...tokens(100), usage(20, 102)])
  const reply = await replyOf(after.call({ stream: true }))
  if (reply.kind !== 'streamed') throw new Error('not streamed')
  await reply.parts.next()
  await reply.parts.next()
  await reply.parts.return()
  expect(after.cancelled()).toBe(true)
  expect(await outcomeOf(after.organization)).toEqual([
    { outcome: 'cancelled', estimated: true, completion_tokens: 2n },
  ])
  await after.expectClean()
})

test('a usage reported on the way and not at the end is no total: who hangs up then pays for all there was', async () => {
  const here = await stage(1_000_000n, () => [usage(20, 1), text('one two three four five'), ...tokens(100)])
  const reply = await replyOf(here.call({ stream: true }))
  if (reply.kind !== 'streamed') throw new Error('not streamed')
  await reply.parts.next()
  await reply.parts.return()
  expect(await outcomeOf(here.organization)).toEqual([{ outcome: 'cancelled', estimated: true, completion_tokens: 5n }])
  expect(await here.balance()).toBe(1_000_000n - 25n)
  await here.expectClean()
})

test('a call that cannot be priced fails, and gives its money back', async () => {
  const here = await stage(1_000_000n, () => [text('a'), finish(), usage(1, 1, 2)])
  await expect(here.call()).rejects.toThrow(RangeError)
  await expect(partsOf(here.call({ stream: true }))).rejects.toThrow(RangeError)
  expect(await here.balance()).toBe(1_000_000n)
  await here.expectClean()
})
