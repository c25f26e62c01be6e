import { afterEach, beforeEach, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TurnedClock } from '../../../test/clock.ts'
import '../../../test/ggufEngine.ts'
import { type Hub, startHub } from '../../../test/hub.ts'
import { tinyGguf } from '../../../test/tinyGguf.ts'
import { PullFailure } from './hub.ts'
import { type PullOptions, pullModel } from './pull.ts'

const NAME = 'owner/repo/tiny.gguf'
const MODEL = tinyGguf()
const SHA256 = createHash('sha256').update(MODEL).digest('hex')

let hub: Hub
let folder: string

beforeEach(async () => {
  hub = await startHub()
  hub.files.set(NAME, { bytes: MODEL })
  folder = join(mkdtempSync(join(tmpdir(), 'pull-')), 'models')
})

afterEach(() => {
  hub.stop()
  rmSync(join(folder, '..'), { recursive: true, force: true })
})

function pull(more: Partial<PullOptions> = {}) {
  return pullModel({
    spec: `hf:${NAME}`,
    folder,
    clock: new TurnedClock(),
    onProgress: () => {},
    endpoints: { huggingFace: hub.origin },
    ...more,
  })
}

async function failureOf(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    () => null,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(PullFailure)
  return (error as PullFailure).message
}

const downloads = () =>
  hub.requests.filter((request) => request.startsWith('GET /storage/') || request.startsWith('GET /owner'))

test('a file is fetched, checked, and put into the folder under its own name', async () => {
  const progress: [number, number][] = []
  const pulled = await pull({ onProgress: (received, total) => progress.push([received, total]) })
  expect(pulled).toEqual({ file: join(folder, 'tiny.gguf'), sizeBytes: MODEL.length, sha256: SHA256 })
  expect(createHash('sha256').update(readFileSync(pulled.file)).digest('hex')).toBe(SHA256)
  expect(readdirSync(folder)).toEqual(['tiny.gguf'])
  expect(progress.at(-1)).toEqual([MODEL.length, MODEL.length])
})

test('a file in a folder of the repository is fetched, too', async () => {
  hub.files.set('owner/repo/Q4/deep.gguf', { bytes: MODEL })
  expect((await pull({ spec: 'hf:owner/repo/Q4/deep.gguf' })).file).toBe(join(folder, 'deep.gguf'))
})

test("a file that is not what the hub's checksum says is refused and removed", async () => {
  hub.files.set(NAME, { bytes: MODEL, linkedEtag: `"${'0'.repeat(64)}"` })
  expect(await failureOf(pull())).toContain(`its SHA-256 is ${SHA256}, the hub's is ${'0'.repeat(64)}`)
  expect(readdirSync(folder)).toEqual([])
})

test.each([
  [null, 'names no SHA-256'],
  ['"a94a8fe5ccb19ba61c4c0873d391e987982fbbd3"', 'no valid SHA-256'],
])('a file that can not be checked (etag %p) is not fetched', async (linkedEtag, words) => {
  hub.files.set(NAME, { bytes: MODEL, linkedEtag })
  if (linkedEtag === null) hub.statuses.set(NAME, { status: 200 })
  expect(await failureOf(pull())).toContain(words)
  expect(downloads()).toEqual([])
})

test('a file that is there and right is checked and not fetched again', async () => {
  await pull()
  hub.requests.length = 0
  expect((await pull()).sha256).toBe(SHA256)
  expect(hub.requests).toEqual(['HEAD /owner/repo/resolve/main/tiny.gguf'])
})

test("a file of the same name that is another one is the operator's: it is left alone", async () => {
  await pull()
  writeFileSync(join(folder, 'tiny.gguf'), 'mine')
  expect(await failureOf(pull())).toContain('move it away')
  expect(readFileSync(join(folder, 'tiny.gguf'), 'utf8')).toBe('mine')
})

test('a repository that was renamed is found under its new name', async () => {
  hub.statuses.set('old/name/tiny.gguf', { status: 307, location: '/owner/repo/resolve/main/tiny.gguf' })
  expect((await pull({ spec: 'hf:old/name/tiny.gguf' })).sha256).toBe(SHA256)
})

test.each([
  [404, 'check the owner, the repository'],
  [401, 'is private, or its licence must be accepted'],
  [429, 'try again later'],
  [503, 'try again later'],
])('status %p of the hub is told in words', async (status, words) => {
  hub.statuses.set(NAME, { status })
  expect(await failureOf(pull())).toContain(words)
  expect(downloads()).toEqual([])
})

test('no network is told at once, not after a hundred tries', async () => {
  hub.stop()
  expect(await failureOf(pull())).toContain("can't be reached")
})

test.each([
  'tiny.gguf',
  'hf:owner/tiny.gguf',
  'hf:owner/repo',
  'hf:owner/repo:Q4_K_M',
  'hf:owner/repo/readme.md',
  'hf:owner/../tiny.gguf',
  'hf:owner/repo/../tiny.gguf',
  'hf:owner/repo/.gguf',
  'hf:owner/repo/big-00001-of-00003.gguf',
  'https://example.com/owner/repo/tiny.gguf',
])('%p is refused before anything is asked', async (spec) => {
  await failureOf(pull({ spec }))
  expect(hub.requests).toEqual([])
})

test('a pull that is broken off leaves nothing that looks like a model, and the next one fetches only what is missing', async () => {
  // The downloader fetches in pieces of 5 MiB.
  const bytes = new Uint8Array(16 * 1024 * 1024).fill(7)
  hub.files.set(NAME, { bytes })
  hub.holdAtByte = 6 * 1024 * 1024
  const stop = new AbortController()
  const broken = pull({ signal: stop.signal })
  const isNoted = () =>
    (statSync(join(folder, 'tiny.gguf.part.ipull'), { throwIfNoEntry: false })?.size ?? 0) > bytes.length
  // It keeps what it has behind the file's end, and cuts that off when the file is whole.
  while (!isNoted()) await new Promise((resolve) => setImmediate(resolve))
  stop.abort(new Error('stopped'))
  await expect(broken).rejects.toThrow('stopped')
  expect(readdirSync(folder)).toEqual(['tiny.gguf.part.ipull'])
  hub.holdAtByte = Number.POSITIVE_INFINITY
  hub.requests.length = 0
  expect((await pull()).sizeBytes).toBe(bytes.length)
  expect(readdirSync(folder)).toEqual(['tiny.gguf'])
  const starts = downloads().flatMap((request) => /bytes=(\d+)-/.exec(request)?.[1] ?? [])
  expect(Math.min(...starts.map(Number))).toBeGreaterThan(0)
})

test('a download that stands still for a minute ends with the advice to pull again', async () => {
  const clock = new TurnedClock()
  hub.files.set(NAME, { bytes: new Uint8Array(4 * 1024 * 1024) })
  hub.holdAtByte = 1024
  let received = 0
  const failure = failureOf(
    pull({
      clock,
      onProgress: (bytes) => {
        received = bytes
      },
    }),
  )
  while (received === 0) await new Promise((resolve) => setImmediate(resolve))
  await clock.turn(60_000)
  expect(await failure).toContain('stands still')
})
