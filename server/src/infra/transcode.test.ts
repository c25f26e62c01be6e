import { afterAll, beforeAll, expect, test } from 'bun:test'
import { chmod, mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { makeClip } from '../../test/clip.ts'
import { TurnedClock } from '../../test/clock.ts'
import { wholeOf } from '../../test/jobServer.ts'
import { findProgram } from './program.ts'
import { removeLeftClips, type Transcoding, type TranscodingFailed, toMp4 } from './transcode.ts'

let directory: string
let clip: Buffer
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'transcode-'))
  clip = await readFile(await makeClip(directory, '-f lavfi -i testsrc2=s=320x240:r=16:d=2 -c:v libvpx -f webm'))
})
afterAll(() => rm(directory, { recursive: true }))

async function* inPieces(bytes: Uint8Array) {
  for (let at = 0; at < bytes.byteLength; at += 1_000) yield bytes.subarray(at, at + 1_000)
}

const signal = new AbortController().signal
const options = (more: Partial<Transcoding> = {}): Transcoding => ({
  program: findProgram('ffmpeg') ?? '',
  form: 'matroska',
  bytesMost: 2 ** 30,
  timeMostMs: 60_000,
  signal,
  clock: new TurnedClock(),
  ...more,
})

const failureOf = (work: Promise<unknown>) =>
  work.then(
    () => Promise.reject(new Error('it did not fail')),
    (error: TranscodingFailed) => error,
  )
const leftOver = async () => (await readdir(tmpdir())).filter((name) => name.startsWith('tollgate-clip-'))

/** A program that says where it runs, and ends when it is killed. */
async function endless(): Promise<string> {
  const path = join(directory, 'endless')
  await writeFile(path, `#!/bin/sh\necho $$ > ${directory}/pid\nwhile :; do /bin/sleep 0.1; done\n`)
  await chmod(path, 0o755)
  return path
}

const isRunning = async () => {
  const pid = Number(await readFile(join(directory, 'pid'), 'utf8'))
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

async function started(): Promise<void> {
  while ((await readFile(join(directory, 'pid'), 'utf8').catch(() => '')) === '') {
    await new Promise((resolve) => setImmediate(resolve))
  }
}

test('an mp4 comes, and nothing is left when it is taken or no more of it is', async () => {
  expect((await wholeOf(toMp4(inPieces(clip), options()))).toString('latin1', 4, 8)).toBe('ftyp')
  for await (const _piece of toMp4(inPieces(clip), options())) break
  expect(await leftOver()).toEqual([])
})

test('one that takes too long is ended', async () => {
  const clock = new TurnedClock()
  const work = failureOf(wholeOf(toMp4(inPieces(clip), options({ program: await endless(), clock }))))
  await started()
  await clock.turn(60_000)
  expect((await work).reason).toBe('time')
  expect([await isRunning(), await leftOver(), clock.pending]).toEqual([false, [], 0])
  await rm(join(directory, 'pid'))
})

test('an abort ends it', async () => {
  const leaves = new AbortController()
  const work = failureOf(wholeOf(toMp4(inPieces(clip), options({ program: await endless(), signal: leaves.signal }))))
  await started()
  leaves.abort(new Error('left'))
  expect(String(await work)).toContain('left')
  expect([await isRunning(), await leftOver()]).toEqual([false, []])
})

test('an mp4 beyond the bound is none', async () => {
  const failure = await failureOf(wholeOf(toMp4(inPieces(clip), options({ bytesMost: (1 << 20) + 10_000 }))))
  expect(failure.reason).toBe('size')
  expect(await leftOver()).toEqual([])
})

test.each([
  ['a playlist', Buffer.from('#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n')],
  ['a list of files', Buffer.from('ffconcat version 1.0\nfile /etc/passwd\n')],
  ['nothing', Buffer.alloc(0)],
])('%s is no clip', async (_name, bytes) => {
  expect((await failureOf(wholeOf(toMp4(inPieces(bytes), options())))).reason).toBe('input')
})

test('a source that breaks off, and a program that is not there', async () => {
  async function* breaking() {
    yield clip.subarray(0, 1_000)
    throw new Error('broken off')
  }
  expect(String(await failureOf(wholeOf(toMp4(breaking(), options()))))).toContain('broken off')
  expect((await failureOf(wholeOf(toMp4(inPieces(clip), options({ program: '/nowhere/ffmpeg' }))))).reason).toBe(
    'input',
  )
  expect(await leftOver()).toEqual([])
})

test('folders that killed processes left are removed, and nothing that is younger', async () => {
  const [old, young] = [
    await mkdtemp(join(tmpdir(), 'tollgate-clip-')),
    await mkdtemp(join(tmpdir(), 'tollgate-clip-')),
  ]
  await writeFile(join(old, 'clip.mp4'), 'x')
  await utimes(old, 1, 1)
  await removeLeftClips(1_001)
  const left = await leftOver()
  expect([left.includes(basename(old)), left.includes(basename(young))]).toEqual([false, true])
  await rm(young, { recursive: true })
})
