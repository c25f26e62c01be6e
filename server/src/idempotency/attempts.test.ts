import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TurnedClock } from '../../test/clock.ts'
import { type FreshDatabase, freshDatabase } from '../../test/postgres.ts'
import { SILENCE } from '../../test/silence.ts'
import { openFolderArtifacts } from '../io/artifacts/folder.ts'
import type { Artifacts } from '../io/artifacts.ts'
import { systemRandom } from '../io/random.ts'
import { DAY_MS } from '../kernel/time.ts'
import type { KeptAnswer } from './answer.ts'
import { type Attempt, type Attempts, createAttempts } from './attempts.ts'
import { sweepAttempts } from './sweep.ts'

const random = systemRandom()
const dataKey = random(32)
const KEY = '00000000-0000-4000-8000-00000000000a'
const clock = new TurnedClock(Date.UTC(2026, 5, 1))
const request = new Uint8Array(32).fill(1)
const answer = (text: string): KeptAnswer => ({
  status: 201,
  contentType: 'text/plain',
  operationId: 'op',
  body: new TextEncoder().encode(text),
})

let fresh: FreshDatabase
let path: string
let artifacts: Artifacts
/** Slots that nobody owns. */
const dead = new Set<number>()
beforeAll(async () => {
  fresh = await freshDatabase()
  path = await mkdtemp(join(tmpdir(), 'attempts-'))
  artifacts = openFolderArtifacts(path, { clock, random })
})
afterAll(async () => {
  await fresh.drop()
  await rm(path, { recursive: true })
})

const openProcess = (slot: number, more: { artifacts?: Artifacts } = {}): Attempts =>
  createAttempts({
    database: fresh.database,
    clock,
    random,
    log: SILENCE,
    slot,
    isAbandoned: (_tx, other) => Promise.resolve(dead.has(other)),
    dataKey,
    artifacts,
    ...more,
  })

async function begin(attempts: Attempts, key: string): Promise<Attempt> {
  const begun = await attempts.begin(KEY, key, request)
  if (begun.kind !== 'begun') throw new Error(begun.kind)
  return begun.attempt
}

const sweep = (attempts: Attempts, slot: number) =>
  sweepAttempts({ database: fresh.database, clock, slot, attempts, artifacts })

async function rows(): Promise<number> {
  const [row] = await fresh.database.query<{ count: bigint }>('select count(*) as count from idempotent_attempts')
  return Number(row?.count)
}

test('a living process keeps its key from others, a dead one gives it up at once', async () => {
  const [one, other] = [openProcess(1), openProcess(2)]
  const late = await begin(one, 'dying')
  expect((await other.begin(KEY, 'dying', request)).kind).toBe('inProgress')
  dead.add(1)
  const next = await begin(other, 'dying')
  expect((await one.begin(KEY, 'dying', request)).kind).toBe('inProgress')

  // Who was taken for dead and comes back ends nothing, and keeps nothing, of the other's.
  await late.end()
  expect((await openProcess(3).begin(KEY, 'dying', request)).kind).toBe('inProgress')
  await next.keepNow(answer('of the second'))
  await late.keepNow(answer('of the first'))
  const replay = await other.begin(KEY, 'dying', request)
  expect(replay).toEqual({ kind: 'replay', answer: answer('of the second') })
  dead.clear()
})

test('two that find the same dead process do not both take its key', async () => {
  dead.add(1)
  for (let round = 0; round < 20; round += 1) {
    await begin(openProcess(1), `raced ${round}`)
    const begun = await Promise.all([2, 3, 4].map((slot) => openProcess(slot).begin(KEY, `raced ${round}`, request)))
    expect(begun.map(({ kind }) => kind).sort()).toEqual(['begun', 'inProgress', 'inProgress'])
  }
  dead.clear()
})

test('what a process has lost of its own it takes again', async () => {
  await begin(openProcess(5), 'left behind')
  // A new process in the same slot: whatever is there of it is a dead one's.
  expect((await openProcess(5).begin(KEY, 'left behind', request)).kind).toBe('begun')
})

test('an answer is kept with the transaction that it rides on, or not at all', async () => {
  const attempts = openProcess(6)
  const attempt = await begin(attempts, 'rolled back')
  const [ride] = await attempt.keep(answer('never'))
  const failing = fresh.database.transaction(async (tx) => {
    await ride?.(tx)
    throw new Error('rolled back')
  })
  const reason = await failing.catch((error: unknown) => error)
  expect(String(reason)).toContain('rolled back')
  expect((await openProcess(7).begin(KEY, 'rolled back', request)).kind).toBe('inProgress')
  await attempt.end()
  await sweep(attempts, 6)
  expect((await openProcess(7).begin(KEY, 'rolled back', request)).kind).toBe('begun')
})

test('a disk that takes no file leaves a large answer to the database', async () => {
  const full: Artifacts = { ...artifacts, write: () => Promise.reject(new Error('ENOSPC')) }
  const attempts = openProcess(8, { artifacts: full })
  const large = answer('x'.repeat(300_000))
  await (await begin(attempts, 'large')).keepNow(large)
  expect(await attempts.begin(KEY, 'large', request)).toEqual({ kind: 'replay', answer: large })
})

test('the sweep forgets what has expired with its files, and orphans, and nothing that is under way', async () => {
  await fresh.database.query('delete from idempotent_attempts')
  const attempts = openProcess(9)
  const large = answer('y'.repeat(300_000))
  const old = await begin(attempts, 'old')
  await old.keepNow(large)
  await old.end()
  const running = await begin(attempts, 'running')
  const orphan = '01900000-0000-7000-8000-000000000000'
  for (const name of [orphan, `${orphan}.0.unfinished`, 'somebody-elses.txt']) await writeFile(join(path, name), 'abc')
  await sweep(attempts, 9)
  expect(await rows()).toBe(2)
  expect((await readdir(path)).sort().at(-1)).toBe('somebody-elses.txt')
  expect(await readdir(path)).toHaveLength(2)

  await clock.turn(DAY_MS)
  await sweep(attempts, 9)
  expect(await readdir(path)).toEqual(['somebody-elses.txt'])
  expect(await rows()).toBe(1)
  await running.end()
  expect(await rows()).toBe(0)
})

test('an expired answer is not given again, swept or not', async () => {
  const attempts = openProcess(10)
  await (await begin(attempts, 'expiring')).keepNow(answer('old'))
  await clock.turn(DAY_MS - 1)
  expect((await attempts.begin(KEY, 'expiring', request)).kind).toBe('replay')
  await clock.turn(1)
  expect((await attempts.begin(KEY, 'expiring', request)).kind).toBe('begun')
})
