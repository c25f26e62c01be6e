import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock, turnUntil } from '../../test/clock.ts'
import { FastClock, type House, openHouse, openTill } from '../../test/moneyHouse.ts'
import { SILENCE } from '../../test/silence.ts'
import { startSilentProxy, throughProxy } from '../../test/silentProxy.ts'
import { turnedDatabase } from '../../test/turnedDatabase.ts'
import { readBalance } from '../billing/admission/balance/balance.ts'
import { renewShares } from '../billing/admission/renewal/renew.ts'
import { foldSlot } from '../billing/admission/slots/foldSlot.ts'
import { listUnfoldedSlots } from '../billing/admission/slots/store.ts'
import { systemClock } from '../infra/clock.ts'
import type { Database, Queryable, Transaction } from '../infra/postgres/database.ts'
import { newToken } from '../infra/postgres/processToken.ts'
import { openSession } from '../infra/postgres/session.ts'
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import { claimSlot, type Slot, type SlotOptions } from './slot.ts'
import { readServerStart, takeSlot } from './store.ts'

const NOON_MS = Date.UTC(2030, 0, 15, 12)
const fast = new FastClock(NOON_MS)
/** Short waits are over soon; a heartbeat has all the time it needs on a busy machine. */
const brisk = {
  ...systemClock,
  monotonicMs: () => fast.monotonicMs(),
  after: (delayMs: number, callback: () => void) =>
    systemClock.after(delayMs < SECOND_MS ? delayMs / 100 : delayMs, callback),
}

let house: House
beforeAll(async () => {
  house = await openHouse(fast)
})
afterAll(() => house.drop())

function claim(more: Partial<SlotOptions> = {}): Promise<Slot> {
  return claimSlot({
    database: house.database,
    connect: () => openSession(house.url, more.clock ?? systemClock, { kind: 'slot', token: null }),
    clock: systemClock,
    log: SILENCE,
    fold: (tx, slot, takenAtMs, after) => foldSlot(tx, slot, (more.clock ?? systemClock).now(), { after, takenAtMs }),
    listUnfolded: listUnfoldedSlots,
    alone: true,
    onRegained: () => {},
    ...more,
  })
}

/** Ends the connection that holds a slot's lock, as a failing network does. */
async function cut(slot: Slot): Promise<void> {
  await house.database.query(
    `select pg_terminate_backend(pid) from pg_locks 
     where locktype = 'advisory' and classid = 7404 and objid = $1::oid and granted`,
    [slot.number],
  )
}

async function until(reached: () => boolean): Promise<void> {
  while (!reached()) await house.database.query('select 1')
}

/** Until a statement stands in line for the slot's lock. */
async function untilSomebodyWaits(number: number): Promise<void> {
  const waiting = `select from pg_locks where locktype = 'advisory' and objid = ${number} and not granted`
  while ((await house.database.query(waiting)).length === 0);
}

/** Leaves a slot behind as a killed process does: granted, spent, and no longer owned. */
async function leaveBehind(microcents: bigint): Promise<{ organization: string; number: number }> {
  const organization = await house.organization(1_000n)
  const slot = await claim()
  const till = openTill(house.database, slot.number, fast)
  await till.writer.renew(till.share(organization), 600n)
  await till.writer.post(house.charge(organization, microcents), till.share(organization))
  await giveBack(slot)
  return { organization, number: slot.number }
}

/** Releases slots. The server notices a closed connection in its own time, and holds its lock until then. */
async function giveBack(...slots: Slot[]): Promise<void> {
  await Promise.all(slots.map((slot) => slot.release()))
  const held = `select from pg_locks where locktype = 'advisory' and classid = 7404 and objid = any ($1::text::oid[])`
  const numbers = `{${slots.map(({ number }) => number).join(',')}}`
  while ((await house.database.query(held, [numbers])).length > 0);
}

async function granted(organizationId: string): Promise<{ granted: bigint; shares: bigint }> {
  const rows = await house.database.query<{ granted: bigint; shares: bigint }>(
    `select shares_microcents as granted,
       (select count(*) from account_shares l where l.organization_id = a.organization_id) as shares
     from accounts a where organization_id = $1::uuid`,
    [organizationId],
  )
  return rows[0] ?? { granted: -1n, shares: -1n }
}

test('processes that start at the same time get slots of their own', async () => {
  const slots = await Promise.all(Array.from({ length: 5 }, () => claim()))
  expect(new Set(slots.map(({ number }) => number)).size).toBe(5)
  expect(slots.map((slot) => slot.isOwned())).toEqual([true, true, true, true, true])
  await giveBack(...slots)
})

test('a start waits for nothing that a dead process left, which is folded once; then its slot is used again', async () => {
  const { organization, number } = await leaveBehind(40n)
  let folded = 0
  const next = await claim({
    fold: async () => {
      folded += 1
      return null
    },
  })
  expect(next.number).not.toBe(number)
  expect(await granted(organization)).toEqual({ granted: 600n, shares: 1n })
  // Its own alone, where a late statement of a former owner may have left something.
  expect(folded).toBe(1)
  const other = await claim()
  expect(other.number).not.toBe(number)
  for (let time = 0; time < 2; time += 1) {
    await other.foldAbandoned()
    expect(await granted(organization)).toEqual({ granted: 0n, shares: 0n })
    expect(await readBalance(house.database, organization)).toBe(960n)
  }
  const again = await claim()
  expect(again.number).toBe(number)
  expect(await house.imbalances()).toEqual([])
  await giveBack(next, other, again)
})

test('where something is left under every slot, the lowest free one is folded by the start', async () => {
  const { organization, number } = await leaveBehind(40n)
  const next = await claim({ listUnfolded: async () => Array.from({ length: 2_000 }, (_, slot) => slot) })
  expect(next.number).toBe(number)
  expect(await granted(organization)).toEqual({ granted: 0n, shares: 0n })
  expect(await readBalance(house.database, organization)).toBe(960n)
  await giveBack(next)
})

test('a stop does not wait until everything is folded, and what is left is folded later', async () => {
  const { organization, number } = await leaveBehind(40n)
  const parts: (string | null)[] = []
  const slot = await claim({
    fold: async (_tx, of, _takenAtMs, after) => {
      if (of !== number) return null
      parts.push(after)
      // The stop comes while the second part is under way; without it the parts would never end.
      if (parts.length === 2) await slot.release()
      return `part ${parts.length}`
    },
  })
  await slot.foldAbandoned()
  expect(parts).toEqual([null, 'part 1'])
  const next = await claim()
  await next.foldAbandoned()
  expect(await granted(organization)).toEqual({ granted: 0n, shares: 0n })
  await giveBack(slot, next)
})

test('slots without an owner are reclaimed, those with one are not', async () => {
  const guard = await claim()
  const living = await claim()
  const organization = await house.organization(1_000n)
  const till = openTill(house.database, living.number, fast)
  await till.writer.renew(till.share(organization), 100n)
  const dead = await leaveBehind(5n)
  expect(dead.number).not.toBe(living.number)
  await Promise.all([guard.foldAbandoned(), guard.foldAbandoned()])
  expect(await granted(dead.organization)).toEqual({ granted: 0n, shares: 0n })
  expect((await granted(organization)).shares).toBe(1n)
  expect(await readBalance(house.database, dead.organization)).toBe(995n)
  // A stopped process that was given up posts all the same, and is folded with the rest.
  const zombie = openTill(house.database, dead.number, fast)
  await zombie.writer.post(house.charge(dead.organization, 7n), zombie.share(dead.organization))
  expect(await readBalance(house.database, dead.organization)).toBe(988n)
  expect(await house.imbalances()).toEqual([])
  await guard.foldAbandoned()
  expect(await readBalance(house.database, dead.organization)).toBe(988n)
  expect(await granted(dead.organization)).toEqual({ granted: 0n, shares: 0n })
  expect(await house.imbalances()).toEqual([])
  await giveBack(guard, living)
})

test('a process that loses its connection owns nothing until it has its slot again, and says when it has', async () => {
  const other = await claim()
  let regained = 0
  const slot = await claim({
    clock: brisk,
    onRegained: () => {
      // The process must forget the money that it believes it may spend before anything is admitted again.
      expect(slot.isOwned()).toBe(false)
      regained += 1
    },
  })
  await cut(slot)
  await until(() => !slot.isOwned() || regained > 0)
  await until(() => slot.isOwned())
  expect(regained).toBe(1)
  // The lock is really there: the others can't fold it.
  const organization = await house.organization(100n)
  const till = openTill(house.database, slot.number, fast)
  await till.writer.renew(till.share(organization), 10n)
  await other.foldAbandoned()
  expect((await granted(organization)).shares).toBe(1n)
  await giveBack(slot, other)
})

test('a process whose slot another has taken has another slot, and takes its shares anew, to the micro-cent', async () => {
  const organization = await house.organization(1_000n)
  let isBack = false
  const slot = await claim({
    clock: brisk,
    onRegained: () => {
      till.forgetShares()
      isBack = true
    },
  })
  const before = slot.number
  const till = openTill(house.database, () => slot.number, fast)
  const share = till.share(organization)
  await till.writer.renew(share, 300n)
  await till.writer.post(house.charge(organization, 40n), share)
  // The lock goes to somebody else in the moment in which it is free.
  await house.database.transaction(async (tx) => {
    const waits = tx.query('select pg_advisory_xact_lock(7404, $1::int4)', [before])
    await untilSomebodyWaits(before)
    await cut(slot)
    await waits
    await until(() => isBack)
    expect([slot.isOwned(), slot.number === before, share.grantedMicrocents]).toEqual([true, false, 0n])
    await till.writer.renew(share, 100n)
    await till.writer.post(house.charge(organization, 5n), share)
  })
  const slots = () =>
    house.database.query<{ slot: number }>(
      `select slot from account_shares where organization_id = $1::uuid and granted_microcents > 0 order by slot`,
      [organization],
    )
  expect(new Set((await slots()).map((row) => row.slot))).toEqual(new Set([before, slot.number]))
  // The process that takes the former slot, or finds it without an owner, folds what was granted there and spent.
  await slot.foldAbandoned()
  expect((await slots()).map((row) => row.slot)).toEqual([slot.number])
  expect(await readBalance(house.database, organization)).toBe(955n)
  expect(await house.imbalances()).toEqual([])
  await giveBack(slot)
})

test('a connection that the network swallows is ended in the database, and the slot is the same again', async () => {
  const proxy = await startSilentProxy(house.url)
  const clock = new TurnedClock()
  const name = { kind: 'slot', token: newToken() }
  let regained = 0
  const slot = await claim({
    clock,
    connect: () => openSession(throughProxy(house.url, proxy), clock, name),
    onRegained: () => {
      regained += 1
    },
  })
  const { number } = slot
  // Other processes' connections have other tokens, or none.
  const [other, nameless] = await Promise.all([
    claim({ connect: () => openSession(house.url, systemClock, { kind: 'slot', token: newToken() }) }),
    claim(),
  ])
  proxy.forget()
  await turnUntil(
    clock,
    () => regained > 0,
    () => proxy.answered(() => house.database.query('select 1')),
  )
  expect([slot.number, slot.isOwned(), other.isOwned(), nameless.isOwned()]).toEqual([number, true, true, true])
  await giveBack(slot, other, nameless)
  proxy.stop()
})

test('a process that has lost its slot to another is granted nothing by it', async () => {
  const organization = await house.organization(1_000n)
  const slot = await claim()
  const wants = new Map([[organization, { admission: 100n, least: 100n, extension: 0n, giveBack: null }]])
  const renew = (takenAtMs: number) =>
    renewShares(house.database, slot.number, wants, fast.now(), 0n, takenAtMs).then((renewed) => renewed.length)
  const lostAtMs = slot.takenAtMs()
  const { takenAtMs, beforeMs } = await takeSlot(house.database, slot.number, lostAtMs - MINUTE_MS)
  expect(beforeMs).toBe(lostAtMs)
  // Later than the one before, though this one's clock is behind.
  expect(takenAtMs).toBe(lostAtMs + 1)
  expect(await renew(lostAtMs)).toBe(0)
  expect(await granted(organization)).toEqual({ granted: 0n, shares: 0n })
  expect(await renew(takenAtMs)).toBe(1)
  expect((await granted(organization)).shares).toBe(1n)
  await giveBack(slot)
})

test('a process that has its slot again folds the grants of another by it in between', async () => {
  const organization = await house.organization(1_000n)
  let regained = false
  const onRegained = () => {
    regained = true
  }
  const slot = await claim({ clock: brisk, onRegained })
  await takeSlot(house.database, slot.number, fast.now())
  const other = openTill(house.database, slot.number, fast)
  await other.writer.renew(other.share(organization), 100n)
  expect((await granted(organization)).shares).toBe(1n)
  await cut(slot)
  await until(() => regained)
  expect(await granted(organization)).toEqual({ granted: 0n, shares: 0n })
  await giveBack(slot)
})

test('a server that was restarted just before the lock of a slot was asked for has its minute too', async () => {
  const dead = await leaveBehind(9n)
  const startedMs = await readServerStart(house.database)
  let nowMs = startedMs + MINUTE_MS + 1
  const clock = { ...systemClock, now: () => nowMs }
  // The start is asked for first without the lock, and then with it: in between the server is another.
  const database = {
    ...house.database,
    transaction: <T>(work: (tx: Transaction) => Promise<T>) => {
      nowMs = startedMs + SECOND_MS
      return house.database.transaction(work)
    },
  }
  const slot = await claim({ alone: false, clock })
  nowMs = startedMs + MINUTE_MS + 1
  const watched = await claim({ alone: false, clock, database })
  nowMs = startedMs + MINUTE_MS + 1
  const left = await leaveBehind(9n)
  await watched.foldAbandoned()
  expect((await granted(left.organization)).shares).toBe(1n)
  nowMs = startedMs + MINUTE_MS + 1
  await slot.foldAbandoned()
  expect(await granted(left.organization)).toEqual({ granted: 0n, shares: 0n })
  expect(await granted(dead.organization)).toEqual({ granted: 0n, shares: 0n })
  await giveBack(slot, watched)
})

test('a promoted server, which may have been started long ago, has its minute from when its timeline is first seen', async () => {
  let nowMs = (await readServerStart(house.database)) + HOUR_MS
  const clock = { ...systemClock, now: () => nowMs }
  const slot = await claim({ alone: false, clock, database: turnedDatabase(house.database, clock) })
  const dead = await leaveBehind(9n)
  await house.database.query("update timelines set name = 'of the server before'")
  await slot.foldAbandoned()
  nowMs += 59 * SECOND_MS
  await slot.foldAbandoned()
  expect(await granted(dead.organization)).toEqual({ granted: 600n, shares: 1n })
  nowMs += 2 * SECOND_MS
  await slot.foldAbandoned()
  expect(await granted(dead.organization)).toEqual({ granted: 0n, shares: 0n })
  await giveBack(slot)
  await house.database.query('delete from timelines')
})

test('of a server that shows nobody its timeline the start counts', async () => {
  const startedMs = await readServerStart(house.database)
  let nowMs = startedMs + HOUR_MS
  const clock = { ...systemClock, now: () => nowMs }
  const database: Database = {
    ...house.database,
    query: hidingTimeline(house.database),
    transaction: (work) => house.database.transaction((tx) => work({ ...tx, query: hidingTimeline(tx) })),
  }
  const slot = await claim({ alone: false, clock, database })
  const dead = await leaveBehind(9n)
  nowMs = startedMs + 59 * SECOND_MS
  await slot.foldAbandoned()
  expect((await granted(dead.organization)).shares).toBe(1n)
  nowMs = startedMs + MINUTE_MS + 1
  await slot.foldAbandoned()
  expect(await granted(dead.organization)).toEqual({ granted: 0n, shares: 0n })
  await giveBack(slot)
})

/** Queries of a server on which functions of its log may not be called. */
const hidingTimeline =
  (db: Queryable): Queryable['query'] =>
  (text, parameters) =>
    db.query(text.replace('pg_current_wal_lsn()', 'pg_current_wal_lsn_hidden()'), parameters)

test('in the minute after a start of an external database nobody takes over what is free', async () => {
  const dead = await leaveBehind(9n)
  const startedMs = await readServerStart(house.database)
  let nowMs = startedMs + 59 * SECOND_MS
  const clock = { ...systemClock, now: () => nowMs }
  const slot = await claim({ alone: false, clock })
  expect(slot.number).not.toBe(dead.number)
  await slot.foldAbandoned()
  expect(await granted(dead.organization)).toEqual({ granted: 600n, shares: 1n })
  nowMs = startedMs + MINUTE_MS + 1
  await slot.foldAbandoned()
  expect(await granted(dead.organization)).toEqual({ granted: 0n, shares: 0n })
  expect(await readBalance(house.database, dead.organization)).toBe(991n)
  expect(await house.imbalances()).toEqual([])
  await giveBack(slot)
})
