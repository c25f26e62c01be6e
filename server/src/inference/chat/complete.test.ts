import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type ChatStage, NOON_MS, openChatStage, PROMPT_AT_MOST, type Script } from '../../../test/chatStage.ts'
import { TurnedClock } from '../../../test/clock.ts'
import { type House, openHouse } from '../../../test/moneyHouse.ts'
import { finish, text, usage } from '../../../test/scriptedAnswer.ts'
import type { Result } from '../../lib/result.ts'
import { SECOND_MS } from '../../lib/time.ts'
import { ProviderFailure } from '../../providers/dialect/spec.ts'
import type { StreamedPart, StreamedReply } from './reply.ts'

let house: House
beforeAll(async () => {
  house = await openHouse(new TurnedClock(NOON_MS))
})
afterAll(() => house.drop())

const stage = (credit: bigint, script: (stage: ChatStage) => Script | Error) => openChatStage(house, credit, script)

async function replyOf<Reply>(called: Promise<Result<Reply>>): Promise<Reply> {
  const answer = await called
  if (!answer.ok) throw new Error(`refused: ${answer.refusal.code}`)
  return answer.value
}

/** Reads a stream to its end, and commits it as the door does. */
async function partsOf(called: Promise<Result<StreamedReply>>): Promise<StreamedPart[]> {
  const parts: StreamedPart[] = []
  for await (const part of (await replyOf(called)).parts) {
    if (part.kind === 'end') expect(await part.prepared.commit()).toBeNull()
    parts.push(part)
  }
  return parts
}

const tokens = (count: number) => Array.from({ length: count }, () => text('tok '))
const WHOLE: Script = [text('Hello'), text(' you'), finish(), usage(20, 2)]

async function outcomeOf(organization: string): Promise<unknown[]> {
  return house.database.query(
    'select outcome, estimated, completion_tokens from named_charges where organization_id = $1::uuid',
    [organization],
  )
}

test('an answer is charged as reported, before its last part is out', async () => {
  const here = await stage(1_000_000n, () => WHOLE)
  const whole = await replyOf(here.call())
  expect(whole).toMatchObject({ text: 'Hello you', finishReason: 'stop' })
  expect(await here.balance()).toBe(1_000_000n - 22n)

  const reply = await replyOf(here.stream())
  for await (const part of reply.parts) {
    expect(await here.balance()).toBe(1_000_000n - 22n)
    if (part.kind !== 'end') continue
    expect(await part.prepared.commit()).toBeNull()
    expect(await here.balance()).toBe(1_000_000n - 44n)
  }
  await here.expectClean()
})

test('usage that the provider does not report is counted and marked as estimated', async () => {
  const here = await stage(1_000_000n, () => [text('one two three'), finish()])
  const reply = await replyOf(here.call())
  expect(reply.usage.completionTokens).toBe(3)
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
  const parts = await partsOf(here.stream())
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
  expect(reply).toMatchObject({ finishReason: 'length' })
  expect(reply.text.startsWith('tok tok ')).toBe(true)
  expect(await outcomeOf(here.organization)).toMatchObject([{ outcome: 'cut' }])
  expect(await here.balance()).toBeGreaterThanOrEqual(0n)
  await here.expectClean()
})

test('money that covers a part of the first piece: that part is answered and charged, with the reason of a limit (C6)', async () => {
  const here = await stage(400n, () => [text('word '.repeat(2_000)), finish(), usage(20, 2_000)])
  const reply = await replyOf(here.call())
  expect(reply.finishReason).toBe('length')
  expect(reply.text.length).toBeGreaterThan(100)
  expect(reply.prepared.costMicrocents).toBeGreaterThan(100n)
  expect(await here.balance()).toBe(400n - reply.prepared.costMicrocents)
  await here.expectClean()
})

test('a balance that does not cover the prompt and a step is a 402, and nothing is sent to a provider', async () => {
  const here = await stage(BigInt(PROMPT_AT_MOST + 9), () => WHOLE)
  expect(await here.call(10)).toMatchObject({ ok: false, refusal: { code: 'insufficient_balance' } })
  expect(here.asked()).toBe(0)
  expect(await replyOf(here.call(9))).toMatchObject({ text: 'Hello you' })
  await here.expectClean()
})

test('calls that come at once never spend more than there is', async () => {
  const here = await stage(1_500n, () => [...tokens(200), finish('length'), usage(PROMPT_AT_MOST, 200)])
  const answers = await Promise.all(Array.from({ length: 20 }, () => here.call(200)))
  // Each costs exactly its worst case of 282: five fit.
  expect(answers.filter(({ ok }) => ok).length).toBe(5)
  for (const answer of answers) {
    if (!answer.ok) expect(answer.refusal.code).toBe('insufficient_balance')
  }
  expect(here.asked()).toBe(5)
  expect(await here.balance()).toBe(1_500n - 5n * 282n)
  await here.expectClean()
})

test('while the database is away calls get 503 and nothing is sent to a provider', async () => {
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
      of.till.share(of.organization).grantedMicrocents = of.till.share(of.organization).heldMicrocents
    },
    ...tokens(60_000),
  ])
  const reply = await replyOf(here.stream(300))
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

test('a provider that never answers costs nothing', async () => {
  const here = await stage(1_000_000n, () => new ProviderFailure('unavailable', 'refused', { mayFailOver: true }))
  for (const answer of [await here.call(), await here.stream()]) {
    expect(answer).toMatchObject({ ok: false, refusal: { code: 'upstream_unavailable' } })
  }
  expect(await here.balance()).toBe(1_000_000n)
  await here.expectClean()
})

test('a provider that breaks off: a stream is charged for what it gave, a JSON answer not (C5)', async () => {
  const here = await stage(1_000_000n, () => [text('one'), text(' two'), new ProviderFailure('faulty', 'broken')])
  expect(await here.call()).toMatchObject({ ok: false, refusal: { code: 'upstream_error' } })
  expect(await here.balance()).toBe(1_000_000n)
  const parts = await partsOf(here.stream())
  expect(parts.at(-1)).toMatchObject({ kind: 'error', refusal: { code: 'upstream_error' } })
  expect(await outcomeOf(here.organization)).toEqual([
    { outcome: 'interrupted', estimated: true, completion_tokens: 2n },
  ])
  await here.expectClean()
})

test('a client that hangs up before the first token pays nothing, and after it for what was generated', async () => {
  const before = await stage(1_000_000n, (of) => [() => of.client.abort(new Error('gone')), ...tokens(5)])
  expect((await before.stream()).ok).toBe(false)
  expect(await before.balance()).toBe(1_000_000n)
  await before.expectClean()

  const after = await stage(1_000_000n, () => [text('one'), text(' two'), ...tokens(100), usage(20, 102)])
  const reply = await replyOf(after.stream())
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
  const reply = await replyOf(here.stream())
  await reply.parts.next()
  await reply.parts.return()
  expect(await outcomeOf(here.organization)).toEqual([{ outcome: 'cancelled', estimated: true, completion_tokens: 5n }])
  expect(await here.balance()).toBe(1_000_000n - 25n)
  await here.expectClean()
})

test('a stream whose end nobody commits is charged when it ends, once', async () => {
  const here = await stage(1_000_000n, () => WHOLE)
  const reply = await replyOf(here.stream())
  let last: StreamedPart | undefined
  for await (const part of reply.parts) last = part
  expect(await here.balance()).toBe(1_000_000n - 22n)
  expect(last?.kind === 'end' && (await last.prepared.commit())).toBeNull()
  expect(await outcomeOf(here.organization)).toEqual([
    { outcome: 'completed', estimated: false, completion_tokens: 2n },
  ])
  await here.expectClean()
})

test('a whole answer that could not be written costs nothing, and is charged no more', async () => {
  const here = await stage(1_000_000n, () => WHOLE)
  const { prepared } = await replyOf(here.prepared())
  prepared.release('internal_error')
  await expect(prepared.commit()).rejects.toThrow('after it had ended')
  expect(await here.balance()).toBe(1_000_000n)
  await here.expectClean()
})

test('a call that cannot be priced fails, and gives its money back', async () => {
  const here = await stage(1_000_000n, () => [text('a'), finish(), usage(1, 1, -1)])
  await expect(here.call()).rejects.toThrow(RangeError)
  await expect(partsOf(here.stream())).rejects.toThrow(RangeError)
  expect(await here.balance()).toBe(1_000_000n)
  await here.expectClean()
})
