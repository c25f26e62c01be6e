import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TurnedClock } from '../../../test/clock.ts'
import { openAttempts, wholeOf } from '../../../test/keptAnswers.ts'
import { type FreshDatabase, freshDatabase } from '../../../test/postgres.ts'
import { stallable } from '../../../test/stalledDatabase.ts'
import { openFolderArtifacts } from '../../infra/artifacts/folder.ts'
import type { Artifacts } from '../../infra/artifacts.ts'
import { systemRandom } from '../../infra/random.ts'
import { DAY_MS, SECOND_MS } from '../../lib/time.ts'
import type { KeptAnswer } from './answer.ts'
import type { Attempt, Attempts } from './attempts.ts'
import { forgetAnswer } from './store.ts'
import { adoptLiving, sweepAttempts } from './sweep.ts'

const random = systemRandom()
const dataKey = random(32)
const KEY = { id: '00000000-0000-4000-8000-00000000000a', organizationId: '00000000-0000-4000-8000-00000000000b' }
const clock = new TurnedClock(Date.UTC(2026, 5, 1))
const request = new Uint8Array(32).fill(1)
const answer = (text: string) => ({
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

const openProcess = (slot: number, more: Partial<Parameters<typeof openAttempts>[0]> = {}) =>
  openAttempts({
    database: fresh.database,
    clock,
    random,
    slot: () => slot,
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
  sweepAttempts({ database: fresh.database, clock, slot: () => slot, attempts, artifacts })

/** The answer that is given again for a key, with all of its body. */
async function replayed(attempts: Attempts, key: string): Promise<KeptAnswer> {
  const begun = await attempts.begin(KEY, key, request)
  if (begun.kind !== 'replay') throw new Error(begun.kind)
  return wholeOf(begun.answer)
}

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

  // A process that was taken for dead and comes back neither ends the other's attempt nor keeps an answer for it.
  await late.end()
  expect((await openProcess(3).begin(KEY, 'dying', request)).kind).toBe('inProgress')
  await next.keepNow(answer('of the second'))
  await late.keepNow(answer('of the first'))
  expect(await replayed(other, 'dying')).toEqual(answer('of the second'))
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

test('a process takes its own lost attempts again', async () => {
  await begin(openProcess(5), 'left behind')
  // A new process in the same slot: whatever is there of it is a dead one's.
  expect((await openProcess(5).begin(KEY, 'left behind', request)).kind).toBe('begun')
})

test('a process that has another slot takes its attempts along, and the owner of its former one frees none of them', async () => {
  let slot = 11
  const attempts = openProcess(11, { slot: () => slot })
  const attempt = await begin(attempts, 'moved')
  slot = 12
  // Before they are taken along: the former slot has no owner, and the process itself does not give its own key away.
  dead.add(11)
  expect((await attempts.begin(KEY, 'moved', request)).kind).toBe('inProgress')
  await adoptLiving({ database: fresh.database, slot: () => slot, attempts })
  await sweep(openProcess(11), 11)
  expect((await openProcess(13).begin(KEY, 'moved', request)).kind).toBe('inProgress')
  await attempt.keepNow(answer('of the one that moved'))
  expect(await replayed(openProcess(13), 'moved')).toEqual(answer('of the one that moved'))
  dead.clear()
})

test('an answer is kept with the transaction that it joins, or not at all', async () => {
  const attempts = openProcess(6)
  const attempt = await begin(attempts, 'rolled back')
  const [participant] = await attempt.keep(answer('never'))
  const failing = fresh.database.transaction(async (tx) => {
    await participant?.(tx)
    throw new Error('rolled back')
  })
  const reason = await failing.catch((error: unknown) => error)
  expect(String(reason)).toContain('rolled back')
  expect((await openProcess(7).begin(KEY, 'rolled back', request)).kind).toBe('inProgress')
  await attempt.end()
  await sweep(attempts, 6)
  expect((await openProcess(7).begin(KEY, 'rolled back', request)).kind).toBe('begun')
})

test('the key of an answer whose effect is not known stays in progress until it is, then it is kept', async () => {
  const attempts = openProcess(1)
  const first = await begin(attempts, 'unknown')
  const participants = await first.keep(answer('in the end'))
  const outcome = Promise.withResolvers<boolean>()
  first.awaitOutcome(outcome.promise)
  // The answer of its request waits for nothing.
  await first.end()
  expect((await attempts.begin(KEY, 'unknown', request)).kind).toBe('inProgress')
  await fresh.database.transaction(async (tx) => {
    for (const participant of participants) expect(await participant(tx)).toBe(true)
  })
  outcome.resolve(true)
  await outcome.promise
  expect(await replayed(attempts, 'unknown')).toEqual(answer('in the end'))
})

test('the key of an answer whose effect was withdrawn is free once its request has ended', async () => {
  const attempts = openProcess(1)
  const first = await begin(attempts, 'withdrawn')
  await first.keep(answer('never'))
  first.discard()
  expect(first.isKept).toBe(false)
  await first.end()
  await (await begin(attempts, 'withdrawn')).end()
})

test('an answer waits two seconds at most until its key is free; the key is in progress until it is', async () => {
  const stalled = stallable(fresh.database)
  const attempts = openProcess(1, { database: stalled.database })
  const first = await begin(attempts, 'stalled')
  stalled.stall('before')
  let isOver = false
  const ending = first.end().then(() => {
    isOver = true
  })
  await clock.turn(2 * SECOND_MS - 1)
  expect(isOver).toBe(false)
  await clock.turn(1)
  await ending
  expect(attempts.living()).toEqual([first.id])
  expect((await openProcess(2).begin(KEY, 'stalled', request)).kind).toBe('inProgress')
  stalled.recover('answered')
  while (attempts.living().length > 0) await fresh.database.query('select 1')
  await (await begin(attempts, 'stalled')).end()
})

test('a disk that takes no file leaves a large answer to the database', async () => {
  const full: Artifacts = { ...artifacts, write: () => Promise.reject(new Error('ENOSPC')) }
  const attempts = openProcess(8, { artifacts: full })
  const large = answer('x'.repeat(300_000))
  await (await begin(attempts, 'large')).keepNow(large)
  expect(await replayed(attempts, 'large')).toEqual(large)
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

test.each([
  ['before its first statement', 1, 'before'],
  ['between its two steps, the first not answered yet', 1, 'after'],
  ['between its two steps', 2, 'before'],
] as const)('an attempt that begins while the sweep is stopped %s keeps its key and its answer', async (...row) => {
  const [where, statement, stall] = row
  const attempts = openProcess(16)
  // Left behind by the former owner of the slot.
  await begin(openProcess(16), `abandoned ${where}`)
  let statements = 0
  const stalled = stallable(fresh.database, () => {
    statements += 1
    return statements === statement
  })
  stalled.stall(stall)
  const sweeping = sweepAttempts({ database: stalled.database, clock, slot: () => 16, attempts, artifacts })
  while (stalled.waiting === 0) await fresh.database.query('select 1')
  const healthy = await begin(attempts, `healthy ${where}`)
  stalled.recover('answered')
  await sweeping
  const kept = await healthy.keep(answer('of the healthy one'))
  for (const keep of kept) expect(await fresh.database.transaction(keep)).toBe(true)
  expect(await replayed(openProcess(17), `healthy ${where}`)).toEqual(answer('of the healthy one'))
  // A key is free again where nobody worked on its attempt.
  expect((await openProcess(17).begin(KEY, `abandoned ${where}`, request)).kind).toBe('begun')
})

test('an expired answer is not given again, swept or not', async () => {
  const attempts = openProcess(10)
  await (await begin(attempts, 'expiring')).keepNow(answer('old'))
  await clock.turn(DAY_MS - 1)
  expect((await attempts.begin(KEY, 'expiring', request)).kind).toBe('replay')
  await clock.turn(1)
  expect((await attempts.begin(KEY, 'expiring', request)).kind).toBe('begun')
})

test('a large answer is read piece by piece, from a file and from the database alike', async () => {
  const large = answer('0123456789'.repeat(70_000))
  const full: Artifacts = { ...artifacts, write: () => Promise.reject(new Error('ENOSPC')) }
  for (const store of [artifacts, full]) {
    const attempts = openProcess(11, { artifacts: store })
    const key = store === full ? 'pieces of a row' : 'pieces of a file'
    await (await begin(attempts, key)).keepNow(large)
    const begun = await attempts.begin(KEY, key, request)
    if (begun.kind !== 'replay' || begun.answer.body instanceof Uint8Array) throw new Error('it is in memory')
    expect(begun.answer.body.pieces).toBe(3)
    expect((await begun.answer.body.read(2)).byteLength).toBe(700_000 - 2 * 262_144)
    expect(await wholeOf(begun.answer)).toEqual(large)
  }
})

test('a piece of a kept answer that was changed, or put in the place of another, is not given', async () => {
  const changed: Artifacts = {
    ...artifacts,
    // The second piece, wherever a piece is asked for.
    read: (name, first, last) => artifacts.read(name, first === 0 ? 262_172 : first, first === 0 ? 524_343 : last),
  }
  const attempts = openProcess(12, { artifacts: changed })
  await (await begin(attempts, 'swapped')).keepNow(answer('z'.repeat(600_000)))
  const begun = await attempts.begin(KEY, 'swapped', request)
  if (begun.kind !== 'replay' || begun.answer.body instanceof Uint8Array) throw new Error('it is in memory')
  expect((await begun.answer.body.read(1)).byteLength).toBe(262_144)
  const reason = await begun.answer.body.read(0).catch((error: unknown) => error)
  expect(reason).toBeInstanceOf(Error)
})

describe('the quota of kept answers (D6)', () => {
  const BODY = 10_000
  const owned = (last: string) => ({
    id: KEY.id.replace(/.$/, last),
    organizationId: `${KEY.organizationId.slice(0, -1)}${last}`,
  })
  const kindOf = async (attempts: Attempts, owner: typeof KEY, key: string, isRequired?: boolean) =>
    (await attempts.begin(owner, key, request, isRequired)).kind
  const keep = async (attempts: Attempts, owner: typeof KEY, key: string, isRequired?: boolean) => {
    const begun = await attempts.begin(owner, key, request, isRequired)
    if (begun.kind !== 'begun') throw new Error(begun.kind)
    await begun.attempt.keepNow(answer('q'.repeat(BODY)))
    await begun.attempt.end()
  }
  const keptBytes = async ({ organizationId }: typeof KEY) => {
    const [row] = await fresh.database.query<{ bytes: bigint }>(
      'select sum(bytes)::bigint as bytes from kept_answer_bytes where organization_id = $1::uuid',
      [organizationId],
    )
    return Number(row?.bytes ?? 0n)
  }

  test('refuses what would be kept beyond it; what is kept is replayed, and what must have a key goes on', async () => {
    const owner = owned('1')
    const attempts = openProcess(13, { quota: { bytes: 3 * BODY, bytesPerDollar: 0 } })
    for (const key of ['one', 'two', 'three']) await keep(attempts, owner, key)
    expect(await kindOf(attempts, owner, 'four')).toBe('noRoom')
    expect(await kindOf(attempts, owner, 'four')).toBe('noRoom')
    expect(await kindOf(attempts, owner, 'one')).toBe('replay')
    expect((await attempts.begin(owner, 'one', new Uint8Array(32))).kind).toBe('mismatch')
    await keep(attempts, owner, 'required', true)
    // Another process reads the same figure, and another organization has its own.
    expect(await kindOf(openProcess(14, { quota: { bytes: 3 * BODY, bytesPerDollar: 0 } }), owner, 'five')).toBe(
      'noRoom',
    )
    await keep(attempts, owned('2'), 'one')
    expect(await keptBytes(owner)).toBe(4 * (BODY + 1_024))
  })

  test('grows with the charges of the last 24 hours', async () => {
    const owner = owned('3')
    let chargedMicrocents = 0n
    const since: number[] = []
    const attempts = openProcess(13, {
      quota: { bytes: BODY, bytesPerDollar: BODY },
      chargedMicrocents: (_database, _organization, sinceMs) => {
        since.push(sinceMs)
        return Promise.resolve(chargedMicrocents)
      },
    })
    await keep(attempts, owner, 'one')
    expect(await kindOf(attempts, owner, 'two')).toBe('noRoom')
    expect(since).toEqual([clock.now() - DAY_MS])
    chargedMicrocents = 150_000_000n
    await keep(attempts, owner, 'two')
    await keep(attempts, owner, 'three')
    expect(await kindOf(attempts, owner, 'four')).toBe('noRoom')
  })

  test('is free again when answers expire or are forgotten; an answer that is kept twice counts once', async () => {
    const owner = owned('4')
    const attempts = openProcess(13)
    const begun = await attempts.begin(owner, 'twice', request)
    if (begun.kind !== 'begun') throw new Error(begun.kind)
    const [participant] = await begun.attempt.keep(answer('q'.repeat(BODY)))
    for (let time = 0; time < 2; time += 1) await fresh.database.transaction(async (tx) => participant?.(tx))
    expect(await keptBytes(owner)).toBe(BODY + 1_024)
    await fresh.database.transaction((tx) => forgetAnswer(tx, begun.attempt.id))
    await begun.attempt.end()
    expect(await keptBytes(owner)).toBe(0)

    await keep(attempts, owner, 'swept')
    await keep(attempts, owner, 'asked for again')
    await clock.turn(DAY_MS)
    expect(await kindOf(attempts, owner, 'asked for again')).toBe('begun')
    await sweep(openProcess(15), 15)
    expect(await keptBytes(owner)).toBe(0)
  })

  test('a store that takes no file refuses further requests with a key until it takes files again', async () => {
    const owner = owned('5')
    let isFull = true
    const store: Artifacts = {
      ...artifacts,
      write: (...file) => (isFull ? Promise.reject(new Error('ENOSPC')) : artifacts.write(...file)),
      freeBytes: () => Promise.resolve(2 ** 40),
    }
    const attempts = openProcess(13, { artifacts: store })
    const begun = await attempts.begin(owner, 'charged', request)
    if (begun.kind !== 'begun') throw new Error(begun.kind)
    await begun.attempt.keepNow(answer('q'.repeat(300_000)))
    expect(await kindOf(attempts, owner, 'charged')).toBe('replay')
    expect(await kindOf(attempts, owner, 'next')).toBe('noRoom')
    await attempts.space.look()
    expect(await kindOf(attempts, owner, 'next')).toBe('noRoom')
    isFull = false
    await attempts.space.look()
    expect(await kindOf(attempts, owner, 'next')).toBe('begun')
  })

  test('a disk with little left refuses them before anything fails', async () => {
    let freeBytes = (512 << 20) - 1
    const store: Artifacts = { ...artifacts, freeBytes: () => Promise.resolve(freeBytes) }
    const attempts = openProcess(13, { artifacts: store })
    await attempts.space.look()
    expect(await kindOf(attempts, owned('6'), 'short')).toBe('noRoom')
    freeBytes += 1
    await attempts.space.look()
    expect(await kindOf(attempts, owned('6'), 'short')).toBe('begun')
  })
})
