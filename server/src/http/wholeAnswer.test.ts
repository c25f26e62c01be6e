/** The door of a paid call in one piece: what is written is kept, then charged, and only then leaves. */

import { expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { ByteBudget, LARGE_BYTES, type MemoryReservation } from '../lib/byteBudget.ts'
import { refusal } from '../lib/errors.ts'
import { ok, type Result, refused } from '../lib/result.ts'
import type { Attempt } from './idempotency/attempts.ts'
import { AT_ONCE_BYTES } from './inSlices.ts'
import { createOpenCalls } from './openCalls.ts'
import type { RouteRequest } from './pipeline.ts'
import { type Body, wholeAnswer } from './wholeAnswer.ts'

const NO = refusal('upstream_unavailable', 'Not now.')

/** A call with a key whose steps are noted in order. */
function stage({
  unanswered = false,
  memory,
}: {
  readonly unanswered?: boolean
  readonly memory?: MemoryReservation
} = {}) {
  const clock = new TurnedClock()
  const steps: string[] = []
  const openCalls = createOpenCalls()
  const call = {
    request: new Request('http://gateway.test/v1/things', { headers: { traceparent: 'trace' } }),
    requestId: 'id',
    principal: { id: 'key', organizationId: 'organization', expiresAtMs: null },
    openCalls,
    holdOpen: () => () => steps.push('left'),
  } as unknown as RouteRequest
  const attempt = {
    async keep({ body }: { readonly body: Uint8Array }) {
      steps.push(`kept ${new TextDecoder().decode(body)}`)
      return [async () => true]
    },
    discard: () => {},
    awaitOutcome: () => {},
  } as unknown as Attempt
  let isCommitted = false
  const prepared = {
    costMicrocents: 7n,
    async commit(participants: readonly unknown[] = []) {
      isCommitted = true
      steps.push(`committed with ${participants.length}`)
      return unanswered ? { refusal: NO } : null
    },
    release: (code: string) => steps.push(isCommitted ? 'over' : `released: ${code}`),
  }
  const answer = (pay: () => Promise<Result<{ prepared: typeof prepared }>>, toWire: () => Body, key = true) =>
    wholeAnswer(call, key ? attempt : null, { clock, isTraced: true, ...(memory && { memory }) }, pay, toWire)
  return { steps, call, attempt, prepared, answer, openCalls, clock }
}

test('an answer is written, kept and committed, and then leaves with its cost', async () => {
  const { steps, prepared, answer } = stage()
  const response = await answer(
    async () => ok({ prepared }),
    () => '{}',
  )
  expect(steps).toEqual(['kept {}', 'committed with 1', 'over', 'left'])
  expect(response instanceof Response && (await response.text())).toBe('{}')
  expect(response instanceof Response && [...response.headers.values()]).toContain('7')
})

test.each([
  ['text', (text: string) => text],
  ['pieces', (text: string) => [new TextEncoder().encode(text)]],
])('an answer that the kernel may not take whole keeps its place until it was read: %s', async (_, toWire) => {
  for (const [bytes, isAtOnce] of [
    [64 << 10, true],
    [(64 << 10) + 1, false],
  ] as const) {
    const { steps, prepared, answer } = stage()
    const text = 'x'.repeat(bytes)
    const response = await answer(
      async () => ok({ prepared }),
      () => toWire(text),
      false,
    )
    expect(steps.includes('left')).toBe(isAtOnce)
    expect(response instanceof Response && (await response.text()) === text).toBe(true)
    expect(steps.filter((step) => step === 'left')).toHaveLength(1)
  }
})

test('without an Idempotency-Key it is committed and not kept', async () => {
  const { steps, prepared, answer } = stage()
  await answer(
    async () => ok({ prepared }),
    () => '{}',
    false,
  )
  expect(steps).toEqual(['committed with 0', 'over', 'left'])
})

test('where it must not leave, the refusal leaves in its place', async () => {
  const { steps, prepared, answer } = stage({ unanswered: true })
  expect(
    await answer(
      async () => ok({ prepared }),
      () => '{}',
    ),
  ).toBe(NO)
  expect(steps.at(-1)).toBe('left')
})

test('an answer that can not be written is released, never charged', async () => {
  const { steps, prepared, answer } = stage()
  const broken = () => {
    throw new Error('broken')
  }
  await expect(answer(async () => ok({ prepared }), broken)).rejects.toThrow('broken')
  expect(steps).toEqual(['released: internal_error', 'left'])
})

test('a call that is refused writes nothing', async () => {
  const { steps, answer } = stage()
  expect(
    await answer(
      async () => refused(NO),
      () => '{}',
    ),
  ).toBe(NO)
  expect(steps).toEqual(['left'])
})

test('a call whose key ends is charged, not kept, and answered 401; then its key has no call under way', async () => {
  const { steps, prepared, answer, openCalls } = stage()
  const answered = await answer(
    async () => {
      expect(openCalls.keys()).toMatchObject([{ id: 'key' }])
      openCalls.endKey('key')
      return ok({ prepared })
    },
    () => '{}',
  )
  expect(answered).toMatchObject({ code: 'invalid_api_key' })
  expect(steps).toEqual(['committed with 0', 'over', 'left'])
  const { answer: next, openCalls: calls } = stage()
  await next(
    async () => refused(NO),
    () => '{}',
  )
  expect(calls.keys()).toEqual([])
})

test('a large answer that is still leaving ends with its key', async () => {
  const { steps, prepared, answer, openCalls } = stage()
  const response = await answer(
    async () => ok({ prepared }),
    () => 'x'.repeat((64 << 10) + 1),
    false,
  )
  expect(steps).not.toContain('left')
  openCalls.endKey('key')
  expect(steps.at(-1)).toBe('left')
  await expect(response instanceof Response && response.text()).rejects.toThrow('cut off')
  expect(openCalls.keys()).toEqual([])
})

/** Answers a call with so many bytes, for which `memory` is held while they leave. */
const answerOf = (bytes: number, memory: MemoryReservation) => {
  const { prepared, answer, ...more } = stage({ memory })
  return {
    ...more,
    answered: answer(
      async () => ok({ prepared }),
      () => 'x'.repeat(bytes),
    ),
  }
}

test('answers of up to a MiB take no memory of large ones, whoever reads them slowly', async () => {
  const budget = new ByteBudget(2 * LARGE_BYTES, 0, LARGE_BYTES)
  for (const bytes of [AT_ONCE_BYTES + 1, LARGE_BYTES]) {
    const memory = budget.open('one')
    // As a provider's longer answer has left it.
    memory.set(100)
    await answerOf(bytes, memory).answered
    expect(budget.takenBytes).toBe(0)
  }
  await answerOf(LARGE_BYTES + 1, budget.open('one')).answered
  expect(budget.takenBytes).toBe(LARGE_BYTES + 1)
})

test('an answer that has grown beyond a MiB waits in turn for its memory, and then leaves', async () => {
  const budget = new ByteBudget(4 * LARGE_BYTES, 1, 2 * LARGE_BYTES)
  const first = budget.open('one')
  first.set(2 * LARGE_BYTES)
  const { steps, answered } = answerOf(LARGE_BYTES + 1, budget.open('one'))
  while (budget.waiting === 0) await new Promise((resolve) => setImmediate(resolve))
  expect(steps).toEqual([])
  first.close()
  const response = await answered
  expect([response instanceof Response, budget.takenBytes]).toEqual([true, LARGE_BYTES + 1])
  expect(response instanceof Response && (await response.text())).toHaveLength(LARGE_BYTES + 1)
  expect(budget.takenBytes).toBe(0)
})

test('where that takes too long, or too many wait, the call is 503 and not charged', async () => {
  const budget = new ByteBudget(4 * LARGE_BYTES, 1, 2 * LARGE_BYTES)
  budget.open('one').set(2 * LARGE_BYTES)
  const { steps, answered, clock } = answerOf(LARGE_BYTES + 1, budget.open('one'))
  const crowded = answerOf(LARGE_BYTES + 1, budget.open('one'))
  expect(await crowded.answered).toMatchObject({ code: 'upstream_unavailable', retryAfterSeconds: 5 })
  await clock.turn(10_000)
  expect(await answered).toMatchObject({ code: 'upstream_unavailable', retryAfterSeconds: 5 })
  for (const told of [steps, crowded.steps]) expect(told).toEqual(['released: upstream_unavailable', 'left'])
  expect([budget.waiting, budget.takenBytes, clock.pending]).toEqual([0, 2 * LARGE_BYTES, 0])
})

test('a call whose key ends before or while its answer waits for memory is charged', async () => {
  const budget = new ByteBudget(4 * LARGE_BYTES, 1, 2 * LARGE_BYTES)
  budget.open('one').set(2 * LARGE_BYTES)
  const { steps, answered, clock, openCalls } = answerOf(LARGE_BYTES + 1, budget.open('one'))
  while (budget.waiting === 0) await new Promise((resolve) => setImmediate(resolve))
  openCalls.endKey('key')
  expect(await answered).toMatchObject({ code: 'invalid_api_key' })
  await clock.turn(10_000)
  while (!steps.includes('left')) await new Promise((resolve) => setImmediate(resolve))
  expect(steps).toEqual(['committed with 0', 'over', 'left'])

  const ended = stage({ memory: budget.open('one') })
  await ended.answer(
    async () => {
      ended.openCalls.endKey('key')
      return ok({ prepared: ended.prepared })
    },
    () => 'x'.repeat(LARGE_BYTES + 1),
  )
  while (!ended.steps.includes('left')) await new Promise((resolve) => setImmediate(resolve))
  expect(ended.steps).toEqual(['committed with 0', 'over', 'left'])
})

test('a call that outlives its client knows that it has left, with a key and without', async () => {
  for (const withKey of [true, false]) {
    const { call, attempt, prepared, clock } = stage()
    const client = new AbortController()
    const request = new Request('http://gateway.test/v1/things', { signal: client.signal })
    const heard: boolean[] = []
    await wholeAnswer(
      { ...call, request },
      withKey ? attempt : null,
      { clock, isTraced: false, outlivesClient: true },
      async ({ isClientGone }, signal) => {
        heard.push(isClientGone())
        client.abort()
        heard.push(isClientGone(), signal.aborted)
        return ok({ prepared })
      },
      () => '{}',
    )
    expect(heard).toEqual([false, true, false])
  }
})
