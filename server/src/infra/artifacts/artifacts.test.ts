import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TurnedClock } from '../../../test/clock.ts'
import { openS3 } from '../../../test/s3.ts'
import { until } from '../../../test/until.ts'
import { type Artifacts, ArtifactTooLarge, readArtifactRange } from '../artifacts.ts'
import { systemRandom } from '../random.ts'
import { openArtifacts } from './open.ts'
import { openS3Artifacts, type S3Place } from './s3.ts'

/** A file of few bytes, whole; null when there is none of this name. */
async function readWholeArtifact(artifacts: Artifacts, name: string): Promise<Uint8Array | null> {
  const size = await artifacts.size(name)
  if (size === null || size === 0) return size === null ? null : new Uint8Array()
  return readArtifactRange(artifacts, name, 0, size - 1)
}

const clock = new TurnedClock(Date.UTC(2026, 5, 1))
const random = systemRandom()
const MANY = Number.MAX_SAFE_INTEGER
const PIECE = 1 << 20

let directory: string
let place: S3Place
let closeS3: () => Promise<void>
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'artifacts-'))
  const server = await openS3()
  place = server.place
  closeS3 = server.close
})
afterAll(async () => {
  await closeS3()
  await rm(directory, { recursive: true })
})

/** Pieces of a MiB, each of its own number; breaks off before the piece of the index, and notes that it was ended. */
function pieces(count: number, breakAt = -1) {
  const state = { ended: false }
  async function* make() {
    try {
      for (let index = 0; index < count; index += 1) {
        if (index === breakAt) throw new Error('broken off')
        yield new Uint8Array(PIECE).fill(index)
      }
    } finally {
      state.ended = true
    }
  }
  return Object.assign(make(), { state })
}

async function readAll(stream: ReadableStream<Uint8Array> | null): Promise<Buffer | null> {
  if (stream === null) return null
  const parts: Uint8Array[] = []
  for await (const part of stream) parts.push(part)
  return Buffer.concat(parts)
}

async function names(artifacts: Artifacts, untilMs = Number.POSITIVE_INFINITY): Promise<string[]> {
  const found: string[] = []
  for await (const name of artifacts.list(untilMs)) found.push(name)
  return found.sort()
}

const opened: [string, () => Artifacts][] = [
  ['a folder', () => openArtifacts({ kind: 'folder', path: null }, 'videos', directory, { clock, random })],
  ['an S3 store', () => openArtifacts({ kind: 's3', ...place }, 'videos', directory, { clock, random })],
]

describe.each(opened)('%s', (_name, open) => {
  test('gives back what was written, whole and by ranges', async () => {
    const artifacts = open()
    expect(await artifacts.write('a.mp4', pieces(18), 18 * PIECE)).toEqual({ bytes: 18 * PIECE })
    expect(await artifacts.size('a.mp4')).toBe(18 * PIECE)
    const middle = await readAll(await artifacts.read('a.mp4', 3 * PIECE - 2, 5 * PIECE))
    expect(middle?.byteLength).toBe(2 * PIECE + 3)
    expect([middle?.at(0), middle?.at(2), middle?.at(-1)]).toEqual([2, 3, 5])
    expect((await readAll(await artifacts.read('a.mp4', 7, 7)))?.byteLength).toBe(1)
    const whole = await readWholeArtifact(artifacts, 'a.mp4')
    expect([whole?.byteLength, whole?.at(-1)]).toEqual([18 * PIECE, 17])
    await artifacts.remove('a.mp4')
    expect(await artifacts.size('a.mp4')).toBeNull()
  })

  test.each([
    ['small', 3, 2],
    ['of several parts', 20, 19],
  ])('leaves nothing of what breaks off (%s)', async (_size, count, breakAt) => {
    const artifacts = open()
    const source = pieces(count, breakAt)
    await expect(artifacts.write('broken.mp4', source, MANY)).rejects.toThrow('broken off')
    expect(source.state.ended).toBe(true)
    expect(await artifacts.size('broken.mp4')).toBeNull()
    expect(await names(artifacts)).toEqual([])
  })

  test('stops at the bound, ends the source and leaves nothing', async () => {
    const artifacts = open()
    const source = pieces(1_000)
    await expect(artifacts.write('large.mp4', source, 11 * PIECE + 1)).rejects.toBeInstanceOf(ArtifactTooLarge)
    expect(source.state.ended).toBe(true)
    expect(await names(artifacts)).toEqual([])
  })

  test('writes an empty file, and many small pieces', async () => {
    const artifacts = open()
    expect(await artifacts.write('empty', pieces(0), 0)).toEqual({ bytes: 0 })
    expect(await artifacts.size('empty')).toBe(0)
    expect((await readWholeArtifact(artifacts, 'empty'))?.byteLength).toBe(0)
    async function* small() {
      for (let index = 0; index < 1_000; index += 1) yield new Uint8Array([index % 256])
    }
    expect(await artifacts.write('small', small(), MANY)).toEqual({ bytes: 1_000 })
    expect((await readWholeArtifact(artifacts, 'small'))?.at(999)).toBe(999 % 256)
    await artifacts.remove('empty')
    await artifacts.remove('small')
  })

  test('knows nothing of what is not there', async () => {
    const artifacts = open()
    expect(await artifacts.size('none')).toBeNull()
    expect(await artifacts.read('none', 0, 10)).toBeNull()
    expect(await readWholeArtifact(artifacts, 'none')).toBeNull()
    await artifacts.remove('none')
    expect(await names(artifacts)).toEqual([])
  })

  test('a reader may stop in the middle', async () => {
    const artifacts = open()
    await artifacts.write('b.mp4', pieces(3), MANY)
    const stream = await artifacts.read('b.mp4', 0, 3 * PIECE - 1)
    const reader = stream?.getReader()
    expect((await reader?.read())?.value?.byteLength).toBeGreaterThan(0)
    await reader?.cancel()
    await artifacts.remove('b.mp4')
  })

  test.each(['', '../a', 'a/b', 'A', '.hidden', 'ä'])('no name leads out of it (%p)', async (name) => {
    const artifacts = open()
    await expect((async () => artifacts.write(name, pieces(0), 0))()).rejects.toThrow('an artifact is named by')
    await expect((async () => artifacts.size(name))()).rejects.toThrow('an artifact is named by')
  })

  test('areas are apart', async () => {
    const artifacts = open()
    await artifacts.write('mine', pieces(1), MANY)
    const where = _name === 'a folder' ? ({ kind: 'folder', path: null } as const) : ({ kind: 's3', ...place } as const)
    const other = openArtifacts(where, 'answers', directory, { clock, random })
    expect(await names(other)).toEqual([])
    expect(await names(artifacts)).toEqual(['mine'])
    await artifacts.remove('mine')
  })
})

describe('a folder', () => {
  const open = () => openArtifacts({ kind: 'folder', path: join(directory, 'own') }, 'videos', '', { clock, random })

  test('is for our own user only', async () => {
    await open().write('secret', pieces(1), MANY)
    const folder = join(directory, 'own/videos')
    expect((await stat(folder)).mode & 0o777).toBe(0o700)
    expect((await stat(join(directory, 'own'))).mode & 0o777).toBe(0o700)
    expect((await stat(join(folder, 'secret'))).mode & 0o777).toBe(0o600)
  })

  test('lists what is older than an instant by our clock, unfinished ones too', async () => {
    await open().write('old', pieces(1), MANY)
    await writeFile(join(directory, 'own/videos/other.0011.unfinished'), '')
    expect(await names(open(), clock.now())).not.toContain('old')
    expect(await names(open(), clock.now() + 1)).toContain('old')
    expect(await names(open())).toContain('other.0011.unfinished')
    await open().remove('other.0011.unfinished')
  })

  test('two writers of one name do not meet', async () => {
    const results = await Promise.allSettled([
      open().write('same', pieces(3), MANY),
      open().write('same', pieces(5, 4), MANY),
      open().write('same', pieces(3), MANY),
    ])
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(await open().size('same')).toBe(3 * PIECE)
    expect((await readdir(join(directory, 'own/videos'))).filter((name) => name.endsWith('unfinished'))).toEqual([])
  })

  test('a reader goes on when the file is removed', async () => {
    await open().write('going', pieces(2), MANY)
    const stream = await open().read('going', 0, 2 * PIECE - 1)
    await open().remove('going')
    expect((await readAll(stream))?.byteLength).toBe(2 * PIECE)
  })
})

describe('an S3 store', () => {
  // The real server of these tests can't list by pages on today's runtimes, so this one says what a store would.
  test('lists page after page, by age', async () => {
    const asked: URLSearchParams[] = []
    const entry = (name: string, at: string) =>
      `<Contents><Key>tests/videos/${name}</Key><LastModified>${at}</LastModified><Size>1</Size></Contents>`
    const server = Bun.serve({
      port: 0,
      fetch(request) {
        const query = new URL(request.url).searchParams
        asked.push(query)
        const second = query.get('continuation-token') === 'a+/='
        const page = second
          ? `<IsTruncated>false</IsTruncated>${entry('c', '2026-06-01T00:00:00.000Z')}${entry('sub/d', '2026-01-01T00:00:00.000Z')}`
          : `<IsTruncated>true</IsTruncated><NextContinuationToken>a+/=</NextContinuationToken>${entry('a', '2026-01-01T00:00:00.000Z')}${entry('b', '2026-05-01T00:00:00.000Z')}`
        return new Response(`<?xml version="1.0"?><ListBucketResult><Name>b</Name>${page}</ListBucketResult>`, {
          headers: { 'content-type': 'application/xml' },
        })
      },
    })
    const artifacts = openS3Artifacts({ ...place, endpoint: `http://127.0.0.1:${server.port}` }, 'videos', clock)
    expect(await names(artifacts)).toEqual(['a', 'b', 'c'])
    expect(await names(artifacts, Date.UTC(2026, 4, 1))).toEqual(['a'])
    expect(asked.map((query) => query.get('continuation-token'))).toEqual([null, 'a+/=', null, 'a+/='])
    expect(asked[0]?.get('prefix')).toBe('tests/videos/')
    await server.stop(true)
  })

  test('one that refuses or is away rejects, and ends the source', async () => {
    const source = pieces(30)
    const nobody = openS3Artifacts({ ...place, endpoint: 'http://127.0.0.1:1' }, 'videos', clock)
    await expect(nobody.write('x', source, MANY)).rejects.toThrow()
    expect(source.state.ended).toBe(true)
    const missing = openS3Artifacts({ ...place, bucket: 'no-such-bucket' }, 'videos', clock)
    await expect(missing.write('x', pieces(30), MANY)).rejects.toThrow()
    await expect(missing.write('x', pieces(1), MANY)).rejects.toThrow()
  })

  test('one that says nothing is given up after a minute', async () => {
    const silent = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
    const turned = new TurnedClock()
    const artifacts = openS3Artifacts({ ...place, endpoint: `http://127.0.0.1:${silent.port}` }, 'videos', turned)
    const source = pieces(30)
    const failing = [artifacts.size('x'), artifacts.read('x', 0, 1), artifacts.write('x', source, MANY)]
    const failures = Promise.allSettled(failing)
    // An upload counts from its last piece on.
    while (turned.pending < 3) await new Promise((resolve) => setImmediate(resolve))
    await turned.turn(60_000)
    await turned.turn(60_000)
    for (const failure of await failures)
      expect(String((failure as PromiseRejectedResult).reason)).toContain('nothing for 60 s')
    expect(source.state.ended).toBe(true)
    expect(turned.pending).toBe(0)
    silent.stop(true)
  })

  test('one that says nothing for a while and then goes on does not get a file that ends there', async () => {
    const said: string[] = []
    let parts = 0
    let goOn = () => {}
    const silence = new Promise<void>((resolve) => {
      goOn = resolve
    })
    const server = Bun.serve({
      port: 0,
      async fetch(request) {
        await request.arrayBuffer()
        const query = new URL(request.url).searchParams
        if (request.method === 'PUT') {
          parts += 1
          await silence
          return new Response(null, { headers: { etag: '"e"' } })
        }
        said.push(`${request.method} ${query.has('uploads') ? 'begin' : 'end'}`)
        const xml = query.has('uploads')
          ? '<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>k</Key><UploadId>u</UploadId></InitiateMultipartUploadResult>'
          : '<CompleteMultipartUploadResult><ETag>"e"</ETag></CompleteMultipartUploadResult>'
        return new Response(`<?xml version="1.0"?>${xml}`, { headers: { 'content-type': 'application/xml' } })
      },
    })
    const turned = new TurnedClock()
    const artifacts = openS3Artifacts({ ...place, endpoint: `http://127.0.0.1:${server.port}` }, 'videos', turned)
    const failing = artifacts.write('x', pieces(60), MANY).catch(String)
    // Until the store has as much under way as it is given at once.
    await until(() => parts >= 2)
    await turned.turn(60_000)
    await turned.turn(60_000)
    expect(await failing).toContain('nothing for 60 s')
    goOn()
    await until(() => said.length >= 2)
    expect(said).toEqual(['POST begin', 'DELETE end'])
    await server.stop(true)
  })
})
