import { expect, test } from 'bun:test'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestSystemParts, testSystem } from '../test/testSystem.ts'
import { runLine } from './run.ts'
import { checkFiles } from './saveFile.ts'

const KEY = '07'.repeat(16)
const ANSWER = { created: 1, data: [{ b64_json: 'aGk=' }, { b64_json: 'aG8=' }], usage: { image_count: 2 } }
const WORDS = ['image', 'a gate', '--model', 'svc/m', '--n', '2', '--size', '8x8']
const SAVE = [...WORDS, '--output', 'g.png']
const full = async () => {
  throw Object.assign(new Error('no'), { code: 'ENOSPC' })
}

const refuse = (status: number, code: string) => async () =>
  Response.json({ error: { code, message: 'The server says why.' } }, { status })

/** Types a line; the server has made two images. */
async function type(words: readonly string[], parts: TestSystemParts = {}) {
  const keys: unknown[] = []
  const made = testSystem({
    checkFiles: async () => {},
    fetch: async (_, { headers }) => {
      keys.push(new Headers(headers).get('Idempotency-Key'))
      return Response.json(ANSWER, { headers: { 'Svc-Cost-Microcents': '4000000' } })
    },
    ...parts,
  })
  const code = await runLine(words, made.system)
  return { code, keys, ...made.printed }
}

test('without room for all images nothing is asked of the server', async () => {
  const looked: unknown[] = []
  const checked = (paths: readonly string[], bytesEach: number) => {
    looked.push(paths, bytesEach)
    return full()
  }
  const { code, keys, said } = await type(SAVE, { checkFiles: checked })
  expect([code, keys]).toEqual([2, []])
  expect(looked).toEqual([['g-1.png', 'g-2.png'], 8 * 8 * 4 + 64 * 1024])
  expect(said).toContain("g-1.png, g-2.png can't be written: the disk is full")
})

test.each<[string, readonly string[], TestSystemParts, string]>([
  ['a full disk', SAVE, { saveFile: full }, '--output g.png'],
  ['standard output that breaks', [...WORDS, '--json'], { print: full }, '--json'],
  [
    'a reader that has left',
    [...WORDS, '--json'],
    { print: () => Promise.reject(Object.assign(new Error(), { code: 'EPIPE' })) },
    '--json',
  ],
  ['a server that is gone', SAVE, { fetch: full }, '--output g.png'],
  ['a proxy that gave up', SAVE, { fetch: async () => new Response('<html>', { status: 504 }) }, '--output g.png'],
  ['a charge that is not confirmed in time', SAVE, { fetch: refuse(503, 'upstream_unavailable') }, '--output g.png'],
  ['a request that is still under way', SAVE, { fetch: refuse(409, 'idempotency_conflict') }, '--output g.png'],
])('after %s the command that gets the images again is named', async (_, words, parts, more) => {
  const { code, said } = await type(words, parts)
  const [place, json] = more === '--json' ? ['', ' --json'] : [` ${more}`, '']
  const again = `tollgate image 'a gate' --model svc/m${place} --n 2 --size 8x8${json} --idempotency-key ${KEY}`
  const message = words.includes('--json') ? JSON.parse(said).error.message : said
  expect([code, message]).toEqual([1, expect.stringContaining(`"${again}"`)])
  expect(message).toContain('without a new charge')
})

test.each([
  [402, 'quota_exceeded'],
  [409, 'price_changed'],
  [422, 'validation_failed'],
])('a refusal for good is said as it is: %d %s', async (status, code) => {
  const { said } = await type(SAVE, { fetch: refuse(status, code) })
  expect(said).toBe('tollgate: The server says why.\n')
})

test('a key that is given is sent, and the cost is part of the answer', async () => {
  const { keys, out } = await type([...WORDS, '--json', '--idempotency-key', 'mine'])
  expect(keys).toEqual(['mine'])
  expect(JSON.parse(out)).toEqual({ ...ANSWER, cost_usd: '0.04' })
  expect((await type([...WORDS, '--json', '--idempotency-key', 'a b'])).code).toBe(2)
})

test('Ctrl-C says how images that are made all the same are had', async () => {
  let press = () => false
  const left = (_: string, { signal }: RequestInit) =>
    new Promise<Response>((_resolve, reject) => {
      signal?.addEventListener('abort', () => reject(new Error('left')))
      queueMicrotask(() => press())
    })
  const made = testSystem({ checkFiles: async () => {}, fetch: left })
  press = made.interrupt
  expect(await runLine(SAVE, made.system)).toBe(130)
  expect(made.printed.said).toContain(`--idempotency-key ${KEY}"`)
})

test('the look for room leaves nothing behind, whether there is room or not', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-room-'))
  await checkFiles([join(folder, 'a'), join(folder, 'b')], 1_000_000)
  expect(checkFiles([join(folder, 'a'), join(folder, 'nowhere/b')], 10)).rejects.toMatchObject({ code: 'ENOENT' })
  await checkFiles([join(folder, 'a')], 10)
  expect(await readdir(folder)).toEqual([])
  await rm(folder, { recursive: true })
})
