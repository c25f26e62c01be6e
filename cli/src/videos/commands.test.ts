import { beforeEach, describe, expect, test } from 'bun:test'
import type { TurnedClock } from '../../../server/test/clock.ts'
import { wholeOf } from '../../../server/test/jobServer.ts'
import { type TestSystem, testSystem } from '../../test/testSystem.ts'
import { runLine } from '../run.ts'

let clock: TurnedClock
let out: string
let drawn: string
let asked: string[]
let saved: { path: string; text: string }[]
/**
 * The server's answers about the job, one look after the other; the last one stays. Null: the server can't be
 * reached.
 */
let looks: (object | null)[]
/** How each download goes, one after the other; the last one stays. */
let downloads: ('whole' | 'cut' | 'stuck')[]
let isTerminal: boolean
let isDiskFull: boolean
/** Presses Ctrl-C; false where it would end the process. */
let interrupt: () => boolean
beforeEach(() => {
  out = ''
  drawn = ''
  asked = []
  saved = []
  downloads = ['whole']
  isTerminal = true
  isDiskFull = false
})

const job = (more: object = {}) => ({
  id: 'v1',
  model: 'svc/film',
  status: 'queued',
  progress: 0,
  seconds: 4,
  cost_cents: null,
  error: null,
  ...more,
})
const DONE = job({ status: 'completed', progress: 100, cost_cents: 20 })

/** The first of a list that is gone through, as long as there is another. */
const next = <T>(list: T[]): T | undefined => (list.length > 1 ? list.shift() : list[0])

function answer(url: string, init: RequestInit): Response {
  asked.push(
    `${init.method} ${url.replace('http://gateway.test', '')} ${typeof init.body === 'string' ? init.body : ''}`.trim(),
  )
  if (url.endsWith('/content')) return new Response(content(next(downloads), init.signal ?? null))
  const look = next(looks)
  if (look === null) throw new Error('refused')
  return Response.json(look, { status: init.method === 'POST' ? 202 : 200 })
}

function content(how: string | undefined, signal: AbortSignal | null): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      signal?.addEventListener('abort', () => controller.error(new Error('aborted')))
      controller.enqueue(new TextEncoder().encode('the '))
      if (how === 'cut') return controller.error(new Error('reset'))
      if (how === 'stuck') return
      controller.enqueue(new TextEncoder().encode('clip'))
      controller.close()
    },
  })
}

function systemOf(): TestSystem {
  const made = testSystem({
    stderrIsTerminal: isTerminal,
    fetch: async (url, init) => answer(String(url), init ?? {}),
    saveFile: async (path, pieces) => {
      const text = (await wholeOf(pieces)).toString()
      if (isDiskFull) throw Object.assign(new Error('no'), { code: 'ENOSPC' })
      saved.push({ path, text })
      return text.length
    },
    checkFiles: async ([path = '']) => {
      if (path.startsWith('nowhere/')) throw Object.assign(new Error('no'), { code: 'ENOENT' })
    },
  })
  clock = made.clock
  return made
}

/** Runs a command line to its end, the clock turned a second at a time; `meanwhile` is called before each. */
async function typeLine(words: readonly string[], meanwhile: (second: number) => void = () => {}): Promise<number> {
  const { system, printed, interrupt: pressCtrlC } = systemOf()
  interrupt = pressCtrlC
  const ended = runLine(words, system)
  let isOver = false
  void ended.finally(() => {
    isOver = true
  })
  for (let second = 0; !isOver; second += 1) {
    meanwhile(second)
    await clock.turn(1_000)
  }
  out = printed.out
  drawn = printed.said
  expect([clock.pending, interrupt()]).toEqual([0, false])
  return ended
}

const type = (...words: string[]) => typeLine(['video', 'create', 'A gate', '--model', 'svc/film', ...words])

describe('create', () => {
  test('without --wait the job is said and left', async () => {
    looks = [job()]
    expect(await type('--seconds', '4', '--size', '640x360')).toBe(0)
    expect(out).toBe('Video v1 is queued: "tollgate video wait v1 --output clip.mp4" waits for it.\n')
    expect(asked).toEqual(['POST /v1/videos {"model":"svc/film","prompt":"A gate","seconds":4,"size":"640x360"}'])
  })

  test('with --output it is waited for, with a bar, and saved', async () => {
    looks = [job(), job({ status: 'in_progress', progress: 50 }), DONE]
    expect(await type('--output', 'clip.mp4')).toBe(0)
    expect(drawn).toStartWith('Video v1 is accepted. Ctrl-C stops the waiting, not the video.\n')
    expect(drawn).toContain(`[${'.'.repeat(30)}]   0%  waiting for its turn`)
    expect(drawn).toContain(`[${'#'.repeat(15)}${'.'.repeat(15)}]  50%  being made`)
    expect(out).toBe('Video v1: 4 s for $0.20. It is in clip.mp4.\n')
    expect(saved).toEqual([{ path: 'clip.mp4', text: 'the clip' }])
    expect(asked.at(-1)).toBe('GET /v1/videos/v1/content')
  })

  test('where stderr is no terminal there is a line for what is new, and no bar', async () => {
    isTerminal = false
    const at = (progress: number) => job({ status: 'in_progress', progress })
    looks = [job(), job(), at(0), at(4), at(41), at(49), at(50), DONE]
    expect(await type('--wait')).toBe(0)
    const lines = ['waiting for its turn', 'being made, 0%', 'being made, 40%', 'being made, 50%']
    expect(drawn).toBe(lines.map((line) => `Video v1: ${line}\n`).join(''))
    expect(out).toBe('Video v1: 4 s for $0.20. For 24 hours "tollgate video wait v1 --output clip.mp4" saves it.\n')
  })

  test('as JSON nothing is drawn', async () => {
    looks = [job(), null, DONE]
    expect(await type('--wait', '--json')).toBe(0)
    expect([drawn, JSON.parse(out).cost_cents]).toEqual(['', 20])
  })

  test.each([
    [job({ status: 'failed', error: 'content_policy' }), 'failed (content_policy); nothing was charged'],
    [job({ status: 'cancelled' }), 'is cancelled; nothing was charged'],
    [job({ status: 'expired', cost_cents: 20 }), 'is expired: clips are kept for 24 hours'],
  ])('a job that ends otherwise is said, and is no success', async (last, words) => {
    looks = [job(), last]
    expect(await type('--wait')).toBe(1)
    expect(drawn).toContain(words)
    expect(saved).toEqual([])
  })

  test.each([
    [['--seconds', 'four'], '--seconds'],
    [['--output', 'nowhere/clip.mp4'], "--output: nowhere/clip.mp4 can't be written: there is no such folder"],
  ])('%j is refused before anything is asked for', async (words, says) => {
    expect(await type(...words)).toBe(2)
    expect([asked, drawn.includes(says)]).toEqual([[], true])
  })
})

describe('a server that goes away', () => {
  test('is waited for, and said to be away', async () => {
    isTerminal = false
    looks = [job(), null, null, DONE]
    expect(await type('--wait')).toBe(0)
    expect(drawn.match(/the server does not answer, trying again/g)).toHaveLength(1)
  })

  test('is given up after five minutes, with what to type', async () => {
    looks = [job(), null]
    expect(await type('--output', 'my clip.mp4', '--server', 'http://gateway.test')).toBe(1)
    expect(drawn).toContain(
      'tried for 5 minutes: "tollgate video wait v1 --output \'my clip.mp4\' --server http://gateway.test" tries again',
    )
    expect(clock.monotonicMs()).toBeLessThan(310_000)
  })

  test('in the middle of a download has it begun again, whether it breaks off or says nothing more', async () => {
    looks = [DONE]
    downloads = ['cut', 'stuck', 'whole']
    expect(await type('--output', 'clip.mp4')).toBe(0)
    expect(saved).toEqual([{ path: 'clip.mp4', text: 'the clip' }])
    expect(asked.filter((each) => each.endsWith('/content'))).toHaveLength(3)
  })
})

test('a disk that is full is no reason to ask again; the clip can be fetched later', async () => {
  looks = [DONE]
  isDiskFull = true
  expect(await type('--output', 'clip.mp4')).toBe(1)
  expect(drawn).toContain(
    'clip.mp4 can\'t be written: the disk is full; fix that, then "tollgate video wait v1 --output clip.mp4" saves it',
  )
  expect(asked.filter((each) => each.endsWith('/content'))).toHaveLength(1)
})

describe('Ctrl-C', () => {
  test.each<[string, (object | null)[], ('whole' | 'stuck')[]]>([
    ['while it waits', [job()], ['whole']],
    ['while the server is away', [job(), null], ['whole']],
    ['in the middle of a download', [DONE], ['stuck']],
  ])('%s leaves the job, and says how to come back', async (_, seen, how) => {
    looks = seen
    downloads = how
    const words = ['video', 'create', 'A gate', '--model', 'svc/film', '--output', 'clip.mp4']
    const ended = await typeLine(words, (second) => second === 5 && interrupt())
    expect(ended).toBe(130)
    expect(drawn).toEndWith(
      'tollgate: left video v1, which goes on: "tollgate video wait v1 --output clip.mp4" waits for it, "tollgate video cancel v1" ends it\n',
    )
    expect([out, saved]).toEqual(['', []])
    expect(clock.monotonicMs()).toBeLessThan(10_000)
  })

  test('with --json is an error of its own', async () => {
    looks = [job()]
    const words = ['video', 'wait', 'v1', '--json']
    expect(await typeLine(words, (second) => second === 2 && interrupt())).toBe(130)
    expect(JSON.parse(drawn).error.code).toBe('interrupted')
  })
})

test('a job from before is waited for and saved', async () => {
  looks = [job({ status: 'in_progress' }), DONE]
  expect(await typeLine(['video', 'wait', 'v1', '--output', 'clip.mp4'])).toBe(0)
  expect(saved).toHaveLength(1)
  expect(asked[0]).toBe('GET /v1/videos/v1')
})

test.each<[object, number, string]>([
  [job({ status: 'cancelled' }), 0, 'Cancelled video v1; nothing was charged.\n'],
  [DONE, 1, "tollgate: video v1 can't be cancelled any more: it is completed\n"],
  [job({ status: 'in_progress' }), 1, "tollgate: video v1 can't be cancelled any more: its clip is already made\n"],
])('a job is cancelled, or too late', async (seen, code, says) => {
  looks = [seen]
  expect(await typeLine(['video', 'cancel', 'v1'])).toBe(code)
  expect(out + drawn).toBe(says)
  expect(asked).toEqual(['POST /v1/videos/v1/cancel'])
})
