/** In any order of processes and steps of a rotation, every living process opens every sealed value at all times. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { type FreshDatabase, freshDatabase } from '../../../test/postgres.ts'
import { fc } from '../../../test/properties.ts'
import { SILENCE } from '../../../test/silence.ts'
import { systemClock } from '../../infra/clock.ts'
import { LOCK_CLASS } from '../../infra/postgres/locks.ts'
import { openSession, type Session } from '../../infra/postgres/session.ts'
import { systemRandom } from '../../infra/random.ts'
import { toHex, uuidV7 } from '../../lib/ids.ts'
import { seal, unseal } from '../../lib/seal.ts'
import { Secret } from '../../lib/secret.ts'
import { shareLock } from '../../processes/store.ts'
import { sealedAnswers } from '../idempotency/reseal.ts'
import { isAnswerSealedWith, keepAnswer } from '../idempotency/store.ts'
import { type OpenDataKeys, openDataKeys } from './openDataKeys.ts'
import { resealAll } from './reseal.ts'
import { DataKeyFailure, parseRing, type RingSource, ringSource } from './ring.ts'
import { activateKey, dropKeys, offerKey, type RotationDependencies, waitingToSeal } from './rotate.ts'
import { listDataKeys } from './store.ts'

setDefaultTimeout(120_000)

const SLOTS = 3
const TEXT = 'what a customer said'
const random = systemRandom()
const clock = new TurnedClock()

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

/** A value that a process has sealed and not committed yet. */
interface Unfinished {
  readonly attempt: string
  readonly number: number
  readonly sealed: Uint8Array
  readonly done: () => void
}

interface Gateway {
  readonly keys: OpenDataKeys
  readonly lock: Session
  unfinished: Unfinished[]
}

/** An installation: the keys that each place has, the processes that run, and the operator's steps. */
class World {
  readonly gateways = new Map<number, Gateway>()
  /** As `TOLLGATE_DATA_KEY` has it, for each place; a process reads it only when it starts. */
  readonly given: string[]
  private readonly own: RingSource

  constructor() {
    const first = toHex(random(32))
    this.given = Array.from({ length: SLOTS }, () => first)
    this.own = { name: 'the operator', read: async () => parseRing(this.given[0] ?? '', 'the operator') }
  }

  readonly rotation = (): RotationDependencies => ({
    database: fresh.database,
    clock,
    ring: this.own,
    isAbandoned: (tx, slot) => shareLock(tx, LOCK_CLASS.slot, slot),
    isSealedWith: [isAnswerSealedWith],
  })

  /** Starts the process of a slot; with keys that are too old it does not. */
  async start(slot: number): Promise<void> {
    if (this.gateways.has(slot)) return
    const lock = await openSession(fresh.url, systemClock)
    while (!(await lock.tryLock(LOCK_CLASS.slot, slot)));
    const ring = ringSource({ dataDirectory: '/nowhere', given: new Secret(this.given[slot] ?? ''), random })
    try {
      const keys = await openDataKeys({ database: fresh.database, clock, log: SILENCE, slot: () => slot, ring })
      this.gateways.set(slot, { keys, lock, unfinished: [] })
    } catch (error) {
      await lock.close()
      if (!(error instanceof DataKeyFailure)) throw error
    }
  }

  /** Ends a process; killed, it leaves its note behind. */
  async end(slot: number, isKilled: boolean): Promise<void> {
    const gateway = this.gateways.get(slot)
    this.gateways.delete(slot)
    if (!isKilled) for (const { done } of gateway?.unfinished ?? []) done()
    if (!isKilled) await gateway?.keys.close()
    if (gateway === undefined) return
    await gateway.lock.close()
    // PostgreSQL gives the lock back a moment after the connection has ended.
    while (!(await fresh.database.transaction((tx) => shareLock(tx, LOCK_CLASS.slot, slot))));
  }

  /** Adds a new key at a place, or that of the first place. */
  give(slot: number): void {
    const first = (this.given[0] ?? '').split(',')
    const news = slot === 0 && first.length < 2 ? [...first, toHex(random(32))] : first
    this.given[slot] = [...new Set([...(this.given[slot] ?? '').split(','), ...news])].slice(-4).join(',')
  }

  /** Removes what the database has dropped, at a place, as an operator does in the end. */
  async forget(slot: number): Promise<void> {
    const dropped = (await listDataKeys(fresh.database)).filter(({ state }) => state === 'dropped')
    const kept = [...parseRing(this.given[slot] ?? '', 'a place')].filter(
      ([fingerprint]) => !dropped.some((row) => row.fingerprint === fingerprint),
    )
    if (kept.length > 0) this.given[slot] = kept.map(([, key]) => toHex(key)).join(',')
  }

  seal(slot: number): void {
    const gateway = this.gateways.get(slot)
    if (gateway === undefined) return
    const { number, key, done } = gateway.keys.take()
    const attempt = uuidV7(clock.now(), random)
    const sealed = seal(key, { kind: 'tollgate kept answer', name: attempt }, Buffer.from(TEXT), random)
    gateway.unfinished.push({ attempt, number, sealed, done })
  }

  /** Commits what a process has sealed. That of a living one is never refused. */
  async commit(slot: number): Promise<void> {
    const gateway = this.gateways.get(slot)
    if (gateway === undefined) return
    const { unfinished } = gateway
    gateway.unfinished = []
    for (const one of unfinished) {
      expect(await commit(one, slot)).toBe(true)
      one.done()
    }
  }

  async reseal(): Promise<void> {
    const rows = await listDataKeys(fresh.database)
    const sealing = rows.find(({ state }) => state === 'sealing')
    if (sealing === undefined) return
    const ring = await this.own.read()
    const keys = rows.flatMap(({ number, fingerprint }) => {
      const key = ring.get(fingerprint)
      return key === undefined ? [] : [[number, key] as const]
    })
    if (keys.some(([number]) => number === sealing.number))
      await resealAll(fresh.database, sealedAnswers(random), new Map(keys), sealing.number)
  }

  async refresh(slot: number): Promise<void> {
    await this.gateways.get(slot)?.keys.follow()
  }

  /** The promise: every living process opens every value that is committed, with the keys that it has in memory. */
  async check(): Promise<void> {
    const values = await fresh.database.query<{ attempt: string; body: Uint8Array; data_key: number }>(
      'select attempt, body, data_key from idempotent_attempts where status is not null',
    )
    for (const { keys } of this.gateways.values()) {
      for (const { attempt, body, data_key } of values) {
        const key = await keys.find(data_key)
        const opened = unseal(key, { kind: 'tollgate kept answer', name: attempt }, body)
        expect(Buffer.from(opened).toString()).toBe(TEXT)
      }
    }
  }
}

/** Commits a value as `attempts.ts` does; false when it is refused. */
async function commit({ attempt, number, sealed }: Unfinished, slot: number): Promise<boolean> {
  const own = { keyId: attempt, keyHash: new Uint8Array(32), attempt, slot }
  await fresh.database.query(
    `insert into idempotent_attempts (key_id, key_hash, fingerprint, attempt, slot, expires_at, organization_id)
     values ($1::uuid, $2::bytea, $2::bytea, $1::uuid, $3::integer, now() + interval '1 day', $1::uuid)`,
    [attempt, own.keyHash, slot],
  )
  const answer = { status: 200, contentType: null, operationId: null, body: sealed, bodyBytes: TEXT.length }
  return fresh.database.transaction((tx) => keepAnswer(tx, own, { ...answer, dataKey: number }))
}

type Step = { readonly name: string; readonly run: (world: World) => unknown }

/** A step that the operator is told is not possible yet is no mistake. */
const ifPossible = (work: Promise<unknown>) =>
  work.catch((error: unknown) => {
    if (!(error instanceof DataKeyFailure)) throw error
  })

const slots = fc.integer({ min: 0, max: SLOTS - 1 })
const onSlot = (name: string, run: (world: World, slot: number) => unknown) =>
  slots.map((slot): Step => ({ name: `${name} ${slot}`, run: (world) => run(world, slot) }))
const once = (name: string, run: (world: World) => unknown) => fc.constant<Step>({ name, run })

const step: fc.Arbitrary<Step> = fc.oneof(
  onSlot('start', (world, slot) => world.start(slot)),
  onSlot('restart', async (world, slot) => {
    world.give(slot)
    await world.end(slot, false)
    await world.start(slot)
  }),
  onSlot('stop', (world, slot) => world.end(slot, false)),
  onSlot('kill', (world, slot) => world.end(slot, true)),
  onSlot('give', (world, slot) => world.give(slot)),
  onSlot('forget', (world, slot) => world.forget(slot)),
  onSlot('seal', (world, slot) => world.seal(slot)),
  onSlot('commit', (world, slot) => world.commit(slot)),
  onSlot('refresh', (world, slot) => world.refresh(slot)),
  once('give all', (world) => {
    for (let slot = 0; slot < SLOTS; slot += 1) world.give(slot)
  }),
  once('offer', (world) => ifPossible(offerKey(world.rotation()))),
  once('activate', (world) => activateKey(world.rotation())),
  once('reseal', (world) => world.reseal()),
  once('drop', (world) => dropKeys(world.rotation())),
)

const MANY = 60

test('in any order of steps, every living process opens every sealed value, and no value of a living one is refused', async () => {
  let rotations = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 60 }), async (steps) => {
      await fresh.database.query('truncate data_keys, data_key_holders, idempotent_attempts, kept_answer_bytes')
      const world = new World()
      try {
        for (let slot = 0; slot < SLOTS; slot += 1) await world.start(slot)
        for (const { run } of steps) {
          await run(world)
          await world.check()
        }
        // From wherever it stands, a rotation comes to its end.
        for (let slot = 0; slot < SLOTS; slot += 1) {
          await world.commit(slot)
          await world.forget(slot)
        }
        for (let slot = 0; slot < SLOTS; slot += 1) world.give(slot)
        for (let slot = 0; slot < SLOTS; slot += 1) {
          await world.end(slot, slot === 1)
          await world.start(slot)
        }
        await ifPossible(offerKey(world.rotation()))
        for (let slot = 0; slot < SLOTS; slot += 1) await world.refresh(slot)
        await activateKey(world.rotation())
        for (let slot = 0; slot < SLOTS; slot += 1) await world.refresh(slot)
        expect(await waitingToSeal(world.rotation())).toEqual([])
        await world.reseal()
        expect(await dropKeys(world.rotation())).toEqual([])
        await world.check()
        rotations += (await listDataKeys(fresh.database)).filter(({ state }) => state === 'dropped').length
      } finally {
        for (const slot of [...world.gateways.keys()]) await world.end(slot, true)
      }
    }),
    { numRuns: MANY },
  )
  expect(rotations).toBeGreaterThan(MANY / 2)
})

test('a key is not brought into use while a living process lacks it; one that starts without it then says what is missing', async () => {
  await fresh.database.query('truncate data_keys, data_key_holders, idempotent_attempts, kept_answer_bytes')
  const world = new World()
  await world.start(0)
  await world.start(1)
  world.give(0)
  await offerKey(world.rotation())
  await world.end(0, false)
  await world.start(0)
  expect(await activateKey(world.rotation())).toEqual([1])
  expect(world.gateways.get(0)?.keys.take().number).toBe(1)
  await world.end(1, true)
  expect(await activateKey(world.rotation())).toEqual([])
  await world.refresh(0)
  expect(world.gateways.get(0)?.keys.take().number).toBe(2)
  const ring = ringSource({ dataDirectory: '/nowhere', given: new Secret(world.given[1] ?? ''), random })
  const late = (await listDataKeys(fresh.database))[1]?.fingerprint.slice(0, 8) ?? ''
  const opening = openDataKeys({ database: fresh.database, clock, log: SILENCE, slot: () => 1, ring })
  await expect(opening).rejects.toThrow(new RegExp(`^TOLLGATE_DATA_KEY: .*${late}.*set TOLLGATE_DATA_KEY`))
  await world.end(0, true)
})

test('while an answer needs an old key, nothing that keeps an answer waits for the look at it', async () => {
  await fresh.database.query('truncate data_keys, data_key_holders, idempotent_attempts, kept_answer_bytes')
  const world = new World()
  await world.start(0)
  world.seal(0)
  await world.commit(0)
  world.give(0)
  await world.end(0, false)
  await world.start(0)
  await offerKey(world.rotation())
  await world.refresh(0)
  expect(await activateKey(world.rotation())).toEqual([])
  await world.refresh(0)
  const left = await fresh.database.transaction(async (tx) => {
    // As a charge has it whose answer is kept: with the lock this would wait for its end.
    await tx.query('lock table data_keys in row share mode')
    return dropKeys(world.rotation())
  })
  expect(left.map(({ number }) => number)).toEqual([1])
  await world.reseal()
  expect(await dropKeys(world.rotation())).toEqual([])
  expect((await listDataKeys(fresh.database)).map(({ state }) => state)).toEqual(['dropped', 'sealing'])
  await world.check()
  await world.end(0, true)
})

test('a process that was taken for dead keeps nothing under a key that was dropped meanwhile', async () => {
  await fresh.database.query('truncate data_keys, data_key_holders, idempotent_attempts, kept_answer_bytes')
  const world = new World()
  await world.start(0)
  world.seal(0)
  const [zombie] = world.gateways.get(0)?.unfinished ?? []
  await world.end(0, true)
  world.give(0)
  await offerKey(world.rotation())
  await activateKey(world.rotation())
  expect(await dropKeys(world.rotation())).toEqual([])
  if (zombie === undefined) throw new Error('nothing was sealed')
  expect(await commit(zombie, 0)).toBe(false)
})
