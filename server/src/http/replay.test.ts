import { expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { TEST_KEY } from '../../test/exchange.ts'
import { replaysWith } from '../../test/keptAnswers.ts'
import type { BodyInPieces, ReplayedAnswer } from './idempotency/answer.ts'
import { createOpenCalls } from './openCalls.ts'
import { type ReplayDependencies, replay } from './replay.ts'

const MEBIBYTE = 1 << 20

/** An answer of so many pieces of 256 KiB; counts those that were read. */
function largeAnswer(pieces: number) {
  const read: number[] = []
  const body: BodyInPieces = {
    pieces,
    read: async (index) => {
      read.push(index)
      return new Uint8Array(256 << 10).fill(index)
    },
  }
  const answer: ReplayedAnswer = { status: 200, contentType: 'application/json', operationId: null, body }
  return { answer, read }
}

/** A request that asks for an answer again, of an organization. */
function callOf(organizationId = TEST_KEY.organizationId) {
  const call = {
    principal: { ...TEST_KEY, organizationId },
    openCalls: createOpenCalls(),
    isOpen: false,
    holdOpen() {
      call.isOpen = true
      return () => {
        call.isOpen = false
      }
    },
  }
  return call
}

function send(replays: ReplayDependencies, answer: ReplayedAnswer, call = callOf()): Response {
  const sent = replay(replays, call, answer, {})
  if (!(sent instanceof Response)) throw new Error(sent.code)
  return sent
}

test('a large answer is read as fast as its client takes it, and is open with its memory until it has left', async () => {
  const replays = replaysWith(new TurnedClock())
  const { answer, read } = largeAnswer(4)
  const call = callOf()
  const reader = send(replays, answer, call).body?.getReader()
  expect(read).toEqual([])
  expect([call.isOpen, replays.memory.takenBytes]).toEqual([true, MEBIBYTE / 2])
  for (let index = 0; index < 4; index += 1) {
    expect((await reader?.read())?.value?.[0]).toBe(index)
    expect(read).toHaveLength(index + 1)
  }
  expect((await reader?.read())?.done).toBe(true)
  expect([call.isOpen, replays.memory.takenBytes]).toEqual([false, 0])
})

test('a client that leaves, and one that takes nothing for 60 s, give memory and place back', async () => {
  const clock = new TurnedClock()
  const replays = replaysWith(clock)
  const leaving = callOf()
  await send(replays, largeAnswer(4).answer, leaving).body?.cancel()
  expect([leaving.isOpen, replays.memory.takenBytes]).toEqual([false, 0])

  const stalled = callOf()
  const reader = send(replays, largeAnswer(4).answer, stalled).body?.getReader()
  await reader?.read()
  await clock.turn(59_999)
  expect(stalled.isOpen).toBe(true)
  await clock.turn(1)
  expect([stalled.isOpen, replays.memory.takenBytes, clock.pending]).toEqual([false, 0, 0])
  const reason = await reader?.read().catch((error: unknown) => error)
  expect(String(reason)).toContain('reads too slowly')
})

test('a replay that is still leaving ends with its key', async () => {
  const replays = replaysWith(new TurnedClock())
  const call = callOf()
  const reader = send(replays, largeAnswer(4).answer, call).body?.getReader()
  await reader?.read()
  call.openCalls.endKey(TEST_KEY.id)
  expect([call.isOpen, replays.memory.takenBytes]).toEqual([false, 0])
  await expect(reader?.read()).rejects.toThrow('cut off')
})

test('a client that leaves while its replay waits for its turn has no piece read', async () => {
  let begin = () => {}
  const turn = new Promise<void>((resolve) => {
    begin = resolve
  })
  const { answer, read } = largeAnswer(2)
  const reader = send({ ...replaysWith(new TurnedClock()), turn: () => turn }, answer).body?.getReader()
  const waiting = reader?.read()
  await reader?.cancel()
  begin()
  expect((await waiting)?.done).toBe(true)
  await turn
  expect(read).toEqual([])
})

test('a kept answer that can not be read to its end breaks off', async () => {
  const replays = replaysWith(new TurnedClock())
  const { answer } = largeAnswer(2)
  const body: BodyInPieces = { pieces: 2, read: () => Promise.reject(new Error('gone')) }
  const call = callOf()
  const reason = await send(replays, { ...answer, body }, call)
    .text()
    .catch((error: unknown) => error)
  expect(String(reason)).toContain('gone')
  expect([call.isOpen, replays.memory.takenBytes]).toEqual([false, 0])
})

test('without memory a replay is 503 with Retry-After; small ones need none', () => {
  const replays = replaysWith(new TurnedClock(), MEBIBYTE)
  for (let count = 0; count < 2; count += 1) send(replays, largeAnswer(2).answer)
  expect(replay(replays, callOf(), largeAnswer(2).answer, {})).toMatchObject({
    code: 'upstream_unavailable',
    retryAfterSeconds: 1,
  })
  const small = { ...largeAnswer(1).answer, body: new Uint8Array(64 << 10) }
  expect(send(replays, small).headers.get('Idempotency-Replayed')).toBe('true')
})

test('replays of one organization take 16 MiB at most, those of all together 128 MiB of 256', () => {
  const replays = replaysWith(new TurnedClock())
  for (let organization = 0; organization < 8; organization += 1) {
    for (let count = 0; count < 32; count += 1) send(replays, largeAnswer(2).answer, callOf(`${organization}`))
    const more = replay(replays, callOf(`${organization}`), largeAnswer(2).answer, {})
    expect(more).toMatchObject({ code: 'upstream_unavailable' })
  }
  expect(replays.memory.takenBytes).toBe(128 * MEBIBYTE)
  expect(replay(replays, callOf('another'), largeAnswer(2).answer, {})).toMatchObject({ code: 'upstream_unavailable' })
})
