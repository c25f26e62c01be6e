import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeClip, probeSeconds } from '../../../test/clip.ts'
import { TurnedClock } from '../../../test/clock.ts'
import { openFolderArtifacts } from '../../infra/artifacts/folder.ts'
import type { Artifacts } from '../../infra/artifacts.ts'
import { systemRandom } from '../../infra/random.ts'
import { encodeClip } from '../../providers/sandbox/clip.ts'
import { FRAMES_PER_SECOND } from '../../providers/sandbox/frames.ts'
import { InvalidOutput } from './clip.ts'
import { measureSeconds } from './measure.ts'

let directory: string
let artifacts: Artifacts
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'measure-'))
  artifacts = openFolderArtifacts(join(directory, 'kept'), { clock: new TurnedClock(), random: systemRandom() })
})
afterAll(() => rm(directory, { recursive: true }))

/** As ffmpeg's own words: where its frames come from, and how they are written. */
const PICTURE = (size: string, rate: string, seconds: number) => `-f lavfi -i testsrc2=s=${size}:r=${rate}:d=${seconds}`
const H264 = '-c:v libx264 -pix_fmt yuv420p'
const SOUND = (seconds: number) => `-f lavfi -i sine=d=${seconds}`

const clip = async (words: string): Promise<Buffer> => readFile(await makeClip(directory, words))

const signal = new AbortController().signal

async function measure(bytes: Uint8Array): Promise<number> {
  await artifacts.write('clip.mp4', inPieces(bytes), bytes.byteLength)
  return measureSeconds(artifacts, 'clip.mp4', bytes.byteLength, signal)
}

async function* inPieces(bytes: Uint8Array) {
  yield bytes
}

test.each([
  ['tables at the end, B-frames', `${PICTURE('320x180', '30', 4)} ${H264} -bf 3`],
  ['tables in front, an odd rate', `${PICTURE('320x180', '30000/1001', 5.3)} ${H264} -movflags +faststart`],
  ['fragments', `${PICTURE('320x180', '24', 3)} ${H264} -movflags frag_keyframe+empty_moov`],
  [
    'fragments of a default base',
    `${PICTURE('320x180', '24', 3)} ${H264} -movflags +frag_keyframe+default_base_moof+dash`,
  ],
  ['sound that is longer', `${PICTURE('160x90', '16', 2)} ${SOUND(6)} ${H264} -c:a aac`],
  ['one frame', `${PICTURE('160x90', '1', 1)} ${H264}`],
  ['another codec', `${PICTURE('160x90', '8', 2)} -c:v mpeg4`],
  ['a beginning that is not shown', `-ss 1.3 -i SECOND -c copy`],
])('of an mp4 with %s, ffprobe says the same within 50 ms', async (_name, words) => {
  const second = words.includes('SECOND') ? await makeClip(directory, `${PICTURE('320x180', '30', 4)} ${H264}`) : ''
  const path = await makeClip(directory, words.replace('SECOND', second))
  const seconds = await measure(await readFile(path))
  expect(Math.abs(seconds - (await probeSeconds(path)))).toBeLessThan(0.05)
})

test.each([
  ['nothing', async () => Buffer.alloc(0)],
  ['a few bytes', async () => Buffer.from('mp4')],
  ['HTML', async () => Buffer.from('<!doctype html><title>502</title>'.repeat(100))],
  ['JSON', async () => Buffer.from('{"error":"no"}')],
  ['zeroes', async () => Buffer.alloc(100_000)],
  ['another container', () => clip(`${PICTURE('160x90', '16', 1)} -c:v libvpx -f webm`)],
  ['sound alone', () => clip(`${SOUND(2)} -c:a aac`)],
  [
    'only the beginning, tables at the end',
    async () => (await clip(`${PICTURE('160x90', '16', 2)} ${H264}`)).subarray(0, 9_000),
  ],
  [
    'only the beginning, tables in front',
    async () => (await clip(`${PICTURE('160x90', '16', 2)} ${H264} -movflags +faststart`)).subarray(0, 9_000),
  ],
  [
    'only the beginning, in fragments',
    async () =>
      (await clip(`${PICTURE('160x90', '16', 2)} ${H264} -movflags frag_keyframe+empty_moov`)).subarray(0, 9_000),
  ],
  ['a length of two hours', () => clip(`-f lavfi -i testsrc2=s=16x16:r=1/1000:d=7200 ${H264}`)],
  [
    'tables without pictures',
    async () => withoutPictures(await clip(`${PICTURE('160x90', '16', 1)} ${H264} -movflags +faststart`)),
  ],
])('%s is no clip', async (_name, make) => {
  await expect(measure(await make())).rejects.toBeInstanceOf(InvalidOutput)
})

test('an index of fragments is taken as ffmpeg writes it, and no larger one than a clip can have', async () => {
  const whole = await clip(`${PICTURE('160x90', '24', 2)} ${H264} -movflags frag_keyframe+empty_moov`)
  const own = whole.subarray(0, whole.byteLength - whole.readUInt32BE(whole.byteLength - 4))
  expect(await measure(Buffer.concat([own, indexOf(1_000)]))).toBeCloseTo(2, 3)
  // It may stand anywhere: the last bytes of the file say where.
  const hidden = [boxOf('free', indexOf(100_000)), boxOf('free', lengthOf(100_000))]
  for (const end of [[indexOf(100_000)], hidden]) {
    await expect(measure(Buffer.concat([own, ...end]))).rejects.toThrow('index')
  }
})

/** An index of equal entries, of 11 bytes each. */
function indexOf(entries: number): Buffer {
  const table = Buffer.alloc(16 + entries * 11)
  table.writeUInt32BE(1, 4)
  table.writeUInt32BE(entries, 12)
  const end = boxOf('mfro', Buffer.alloc(8))
  const index = boxOf('mfra', Buffer.concat([boxOf('tfra', table), end]))
  index.writeUInt32BE(index.byteLength, index.byteLength - 4)
  return index
}

/** Returns how far back the hidden one begins, from the end of a box that holds this alone. */
function lengthOf(entries: number): Buffer {
  const back = Buffer.alloc(4)
  back.writeUInt32BE(indexOf(entries).byteLength + 12)
  return back
}

function boxOf(type: string, content: Buffer): Buffer {
  const head = Buffer.alloc(8)
  head.writeUInt32BE(8 + content.byteLength)
  head.write(type, 4)
  return Buffer.concat([head, content])
}

/** The box of the pictures is there, and empty. */
function withoutPictures(bytes: Buffer): Buffer {
  const at = bytes.indexOf('mdat') - 4
  return Buffer.concat([bytes.subarray(0, at), Buffer.from([0, 0, 0, 8]), Buffer.from('mdat')])
}

test('of a clip of the sandbox it is what was asked for, of half of it nothing', async () => {
  const bytes = await encodeClip({ lines: ['a toll gate'], size: { width: 160, height: 90 }, frames: 60, seed: 7 })
  expect(await measure(bytes)).toBeCloseTo(60 / FRAMES_PER_SECOND, 3)
  await expect(measure(bytes.subarray(0, bytes.byteLength >>> 1))).rejects.toBeInstanceOf(InvalidOutput)
})

test('a file that can not be read is no fault of the clip', async () => {
  const failing: Artifacts = { ...artifacts, read: () => Promise.reject(new Error('the disk is gone')) }
  await expect(measureSeconds(failing, 'clip.mp4', 1_000, signal)).rejects.toThrow('the disk is gone')
  await expect(measureSeconds(artifacts, 'never-written', 1_000, signal)).rejects.toThrow('is not there')
})

/** The store, which notes how often it is read. */
function countedArtifacts(onRead: (reads: number) => void): Artifacts {
  let reads = 0
  return {
    ...artifacts,
    read(...range) {
      reads += 1
      onRead(reads)
      return artifacts.read(...range)
    },
  }
}

test('a clip of 19,000 boxes beside each other costs few reads of the store', async () => {
  const whole = await clip(`${PICTURE('64x64', '8', 1)} ${H264}`)
  const empty = boxOf('free', Buffer.alloc(0))
  const bytes = Buffer.concat([whole, ...Array.from({ length: 19_000 }, () => empty)])
  await artifacts.write('boxes.mp4', inPieces(bytes), bytes.byteLength)
  let reads = 0
  const counted = countedArtifacts((count) => {
    reads = count
  })
  expect(await measureSeconds(counted, 'boxes.mp4', bytes.byteLength, signal)).toBeCloseTo(1, 3)
  expect(reads).toBeLessThan(20)
})

test('a clip is read no further after an abort, whose reason is the failure', async () => {
  const whole = await clip(`${PICTURE('64x64', '8', 1)} ${H264}`)
  // Each box has a block of its own.
  const bytes = Buffer.concat([whole, ...Array.from({ length: 20 }, () => boxOf('free', Buffer.alloc(300_000)))])
  await artifacts.write('boxes.mp4', inPieces(bytes), bytes.byteLength)
  const controller = new AbortController()
  const counted = countedArtifacts((reads) => {
    if (reads > 3) throw new Error('it went on')
    if (reads === 3) controller.abort(new Error('enough'))
  })
  await expect(measureSeconds(counted, 'boxes.mp4', bytes.byteLength, controller.signal)).rejects.toThrow('enough')
})

test('every cut of a clip is refused or has a length that can be, and ends', async () => {
  const whole = await clip(`${PICTURE('64x64', '8', 1)} ${H264} -movflags +faststart`)
  for (let bytes = 0; bytes < whole.byteLength; bytes += 97) {
    await expect(measure(whole.subarray(0, bytes))).rejects.toBeInstanceOf(InvalidOutput)
  }
})

test('a clip with any of its bytes changed is measured or refused, within bounds', async () => {
  const whole = await clip(`${PICTURE('64x64', '8', 1)} ${H264} -movflags +faststart`)
  for (let at = 0; at < 1_200; at += 3) {
    const changed = Buffer.from(whole)
    changed[at] = (changed[at] ?? 0) ^ 0xff
    const seconds = await measure(changed).catch((error: unknown) => error)
    if (typeof seconds === 'number') expect(seconds).toBeLessThanOrEqual(3_600)
    else expect(seconds).toBeInstanceOf(InvalidOutput)
  }
})
