import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { probeSeconds } from '../../../test/clip.ts'
import { TurnedClock } from '../../../test/clock.ts'
import { providerFailureOf } from '../../../test/providerFailure.ts'
import { SILENCE } from '../../../test/silence.ts'
import type { VideoCall, VideoWork } from '../dialect/spec.ts'
import { createClipWork } from './clipWork.ts'
import type { SandboxSettings } from './settings.ts'
import { sandboxVideo } from './video.ts'

const SETTINGS: SandboxSettings = {
  firstTokenMs: 100,
  tokensPerSecond: null,
  replyTokens: null,
  videoSecondsPerSecond: 2,
}
const signal = new AbortController().signal
const clips = createClipWork(SILENCE)

let clock: TurnedClock
let work: VideoWork
let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sandbox-video-'))
})
afterAll(async () => {
  await clips.close()
  await rm(directory, { recursive: true })
})
beforeEach(() => {
  clock = new TurnedClock()
  work = sandboxVideo(SETTINGS, clock, clips)
})

const ask = (prompt: string, more: Partial<VideoCall> = {}): VideoCall => ({
  model: 'sandbox',
  prompt,
  seconds: 4,
  size: { width: 320, height: 180 },
  attemptId: 'a1',
  ...more,
})

async function clip(jobId: string): Promise<Buffer> {
  const pieces: Uint8Array[] = []
  for await (const piece of await work.download(jobId, signal, 0)) pieces.push(piece)
  return Buffer.concat(pieces)
}

async function made(call: VideoCall): Promise<Buffer> {
  const jobId = await work.submit(call, signal, 0)
  await clock.turn(3_600_000)
  return clip(jobId)
}

test('a job waits, is worked on at its pace, and is done', async () => {
  const jobId = await work.submit(ask('a toll gate'), signal, 0)
  expect(await work.look(jobId, signal, 0)).toEqual({ kind: 'waiting' })
  await clock.turn(100)
  expect(await work.look(jobId, signal, 0)).toEqual({ kind: 'working', progress: 0 })
  await clock.turn(500)
  expect(await work.look(jobId, signal, 0)).toEqual({ kind: 'working', progress: 25 })
  await clock.turn(1_499)
  expect(await work.look(jobId, signal, 0)).toEqual({ kind: 'working', progress: 99 })
  await clock.turn(1)
  expect(await work.look(jobId, signal, 0)).toEqual({ kind: 'done' })
  expect(clock.pending).toBe(0)
})

test.each([
  ['as asked for', ask('A toll gate at dawn, {ä} "quoted"'), 4],
  ['of the size of its own', ask('x', { size: null, seconds: 1 }), 1],
  ['of a length by directive', ask('[[sandbox clip_seconds=2.5]]'), 2.5],
  ['of one frame', ask('[[sandbox clip_seconds=0]]', { size: { width: 16, height: 16 } }), 1 / 24],
] as const)('the clip is an mp4 that plays, %s', async (name, call, seconds) => {
  const path = join(directory, `${name}.mp4`)
  const bytes = await made(call)
  await writeFile(path, bytes)
  expect(Math.abs((await probeSeconds(path)) - seconds)).toBeLessThan(0.05)
  expect((await made(call)).byteLength).toBe(bytes.byteLength)
})

test('an attempt is found again by its id, and asked twice is one job', async () => {
  expect(await work.find?.('a1', signal, 0)).toBeNull()
  const jobId = await work.submit(ask('x'), signal, 0)
  expect(await work.find?.('a1', signal, 0)).toBe(jobId)
  expect(await work.submit(ask('x'), signal, 0)).toBe(jobId)
})

test('another process, and one that was started again, knows a job too; not what is none', async () => {
  const jobId = await work.submit(ask('x'.repeat(5_000)), signal, 0)
  const other = sandboxVideo(SETTINGS, clock, clips)
  expect(await other.find?.('a1', signal, 0)).toBeNull()
  await clock.turn(600)
  expect(await other.look(jobId, signal, 0)).toEqual({ kind: 'working', progress: 25 })
  await clock.turn(1_500)
  expect(await other.look(jobId, signal, 0)).toEqual({ kind: 'done' })
  for await (const piece of await other.download(jobId, signal, 0)) expect(piece.byteLength).toBeGreaterThan(1_000)
  expect(jobId.length).toBeLessThan(1_000)
  for (const none of ['video_a1', 'x', '']) expect(await other.look(none, signal, 0)).toEqual({ kind: 'unknown' })
})

test('a cancelled job is forgotten; cancelling what is over is harmless', async () => {
  const jobId = await work.submit(ask('x'), signal, 0)
  await work.cancel(jobId, signal, 0)
  await work.cancel(jobId, signal, 0)
  expect(await work.look(jobId, signal, 0)).toEqual({ kind: 'unknown' })
  expect((await providerFailureOf(work.download(jobId, signal, 0))).kind).toBe('faulty')
})

describe('directives', () => {
  test.each([
    ['job=failed', { kind: 'failed', code: 'upstream_error', detail: 'simulated' }],
    ['job=content_policy', { kind: 'failed', code: 'content_policy', detail: 'simulated' }],
    ['job=lost', { kind: 'unknown' }],
    ['job=stuck', { kind: 'working', progress: 99 }],
    ['clip=html', { kind: 'done' }],
    ['video_seconds_per_second=0.001', { kind: 'working', progress: 89 }],
    ['first_token_ms=3600000', { kind: 'waiting' }],
  ] as const)('%s', async (part, state) => {
    const jobId = await work.submit(ask(`x [[sandbox ${part}]]`), signal, 0)
    await clock.turn(3_599_999)
    expect(await work.look(jobId, signal, 0)).toEqual(state)
  })

  test.each(['unavailable', 'timeout', 'faulty', 'misconfigured', 'rejected'])(
    'fail=%s fails when asked',
    async (kind) => {
      const failure = await providerFailureOf(work.submit(ask(`x [[sandbox fail=${kind}]]`), signal, 0))
      expect(failure).toMatchObject({ kind, mayFailOver: kind === 'unavailable' || kind === 'timeout' })
      expect(await work.find?.('a1', signal, 0)).toBeNull()
    },
  )

  test('clips that are none', async () => {
    expect(await made(ask('[[sandbox clip=empty]]'))).toHaveLength(0)
    expect((await made(ask('[[sandbox clip=html]]'))).toString()).toContain('<!doctype html>')
    const whole = await made(ask('y'))
    expect((await made(ask('y [[sandbox clip=truncated]]'))).byteLength).toBeLessThan(whole.byteLength)
  })

  test.each([
    ['tokens=5', 'tokens is not for videos'],
    ['job=gone', 'job must be one of failed, content_policy, lost, stuck'],
    ['clip_seconds=61', 'clip_seconds must be a number from 0 to 60'],
  ])('%s is refused', async (part, reason) => {
    const failure = await providerFailureOf(work.submit(ask(`[[sandbox ${part}]]`), signal, 0))
    expect([failure.kind, failure.publicMessage]).toEqual(['rejected', expect.stringContaining(reason)])
  })
})

test.each([
  [{ seconds: 61 }, 'at most 60 seconds'],
  [{ size: { width: 1_282, height: 720 } }, 'must be even, from 2 to 1280 pixels'],
  [{ size: { width: 321, height: 180 } }, 'must be even'],
])('%p is more than it makes', async (more, message) => {
  expect((await providerFailureOf(work.submit(ask('x', more), signal, 0))).publicMessage).toContain(message)
})

test('the settings make every job fail, or be done at once', async () => {
  const failing = sandboxVideo({ ...SETTINGS, failure: { kind: 'timeout', afterTokens: 3 } }, clock, clips)
  expect((await providerFailureOf(failing.submit(ask('x'), signal, 0))).kind).toBe('timeout')
  const quick = sandboxVideo({ ...SETTINGS, firstTokenMs: 0, videoSecondsPerSecond: null }, clock, clips)
  expect(await quick.look(await quick.submit(ask('x'), signal, 0), signal, 0)).toEqual({ kind: 'done' })
})

test('ten thousand attempts are remembered, the oldest is forgotten first', async () => {
  for (let index = 0; index <= 10_000; index += 1) await work.submit(ask('x', { attemptId: `n${index}` }), signal, 0)
  expect(await work.find?.('n0', signal, 0)).toBeNull()
  expect(await work.find?.('n1', signal, 0)).toStartWith('video_n1.')
})

test('an abort ends all of it', async () => {
  const jobId = await work.submit(ask('x'), signal, 0)
  const aborted = AbortSignal.abort(new Error('left'))
  for (const call of [
    work.submit(ask('x'), aborted, 0),
    work.look(jobId, aborted, 0),
    work.download(jobId, aborted, 0),
  ]) {
    expect(String(await providerFailureOf(call))).toContain('left')
  }
})
