import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TurnedClock } from '../../../test/clock.ts'
import { type FreshDatabase, freshDatabase } from '../../../test/postgres.ts'
import { SILENCE } from '../../../test/silence.ts'
import { systemRandom } from '../../infra/random.ts'
import { Secret } from '../../lib/secret.ts'
import { openDataKeys } from './openDataKeys.ts'
import { DataKeyFailure, ringSource } from './ring.ts'
import { listHolders } from './store.ts'

const clock = new TurnedClock()
const random = systemRandom()
let fresh: FreshDatabase
let folder: string
beforeAll(async () => {
  fresh = await freshDatabase()
  folder = await mkdtemp(join(tmpdir(), 'data-key-'))
})
afterAll(async () => {
  await fresh.drop()
  await rm(folder, { recursive: true })
})

/** Opens the keys of a process, and returns the one that it seals with. */
async function open(dataDirectory = folder, given: Secret | null = null): Promise<Uint8Array> {
  const ring = ringSource({ dataDirectory, given, random })
  const keys = await openDataKeys({ database: fresh.database, clock, log: SILENCE, slot: () => 0, ring })
  return keys.take().key
}

async function failure(opening: Promise<unknown>): Promise<string> {
  const error = await opening.then(
    () => null,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(DataKeyFailure)
  return error instanceof Error ? error.message : ''
}

test('is made once, by whoever comes first of several at once, and only its owner may read it', async () => {
  const keys = await Promise.all(Array.from({ length: 8 }, () => open()))
  expect(new Set(keys.map((key) => Buffer.from(key).toString('hex'))).size).toBe(1)
  expect(keys[0]).toHaveLength(32)
  expect(await readdir(folder)).toEqual(['data.key'])
  expect((await stat(join(folder, 'data.key'))).mode & 0o777).toBe(0o600)
  expect(await open()).toEqual(keys[0] ?? new Uint8Array())
})

test('may come from the settings instead, and is the same key then', async () => {
  const text = (await readFile(join(folder, 'data.key'), 'utf8')).trim()
  expect(await open(join(folder, 'elsewhere'), new Secret(text))).toEqual(await open())
})

test('another key than the database was written with is refused in a sentence that names both and neither key', async () => {
  const other = '0f'.repeat(32)
  const message = await failure(open(folder, new Secret(other)))
  expect(message).toMatch(/^TOLLGATE_DATA_KEY: this data key .* is not the one .*; set TOLLGATE_DATA_KEY .*\.$/)
  expect(message).not.toContain(other)
  expect(await failure(open(join(folder, 'lost')))).toContain('is not the one that this database was written with')
})

test('a process that has another slot says under that one which keys it has', async () => {
  const ring = ringSource({ dataDirectory: folder, given: null, random })
  let slot = 1
  const keys = await openDataKeys({ database: fresh.database, clock, log: SILENCE, slot: () => slot, ring })
  const heldBy = async (asked: number) => (await listHolders(fresh.database)).find((each) => each.slot === asked)?.held
  expect([await heldBy(1), await heldBy(4)]).toEqual([[1], undefined])
  slot = 4
  await keys.follow()
  // That of the former slot is its new owner's to write.
  expect([await heldBy(1), await heldBy(4)]).toEqual([[1], [1]])
  await keys.close()
  expect(await heldBy(4)).toBeUndefined()
})

test('a file that holds no key is refused', async () => {
  const text = await readFile(join(folder, 'data.key'), 'utf8')
  await writeFile(join(folder, 'data.key'), 'nonsense')
  expect(await failure(open())).toContain('must be 64 hex digits')
  await writeFile(join(folder, 'data.key'), text)
})
