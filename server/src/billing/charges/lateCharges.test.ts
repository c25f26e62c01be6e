/** Charges that are not known to be posted at their deadline (E14): what their calls are told, and what the books say then. */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { seeded } from '../../../test/faults/seeded.ts'
import { CHARGE_DEADLINE_MS, type House, openHouse, openTill, type Till } from '../../../test/moneyHouse.ts'
import { type Stall, type StalledDatabase, stallable } from '../../../test/stalledDatabase.ts'
import type { Participant } from '../../infra/postgres/database.ts'
import { systemRandom } from '../../infra/random.ts'
import { DAY_MS, SECOND_MS } from '../../lib/time.ts'
import { readBalance } from '../admission/balance/balance.ts'
import type { Share } from '../admission/share.ts'
import type { MayGiveUp, Posted } from './chargeQueue.ts'
import { refundCharge } from './refund.ts'

const NOON_MS = Date.UTC(2030, 0, 15, 12)
const GRANTED = 1_000n
/** Until a charge that is posted at all has been, however slow the machine. */
const TURNS_MOST = 3_000
/** A whole answer whose client still waits for it. */
const WHOLE: MayGiveUp = () => true
/** A stream, or a call whose client has hung up. */
const STANDS: MayGiveUp = () => false
const OURS: Participant = () => Promise.resolve(true)
const ANOTHERS: Participant = () => Promise.resolve(false)

let house: House
beforeAll(async () => {
  house = await openHouse(new TurnedClock(NOON_MS))
})
afterAll(() => house.drop())

let clock: TurnedClock
let stalled: StalledDatabase
let till: Till
let organization: string
let share: Share
beforeEach(async () => {
  clock = new TurnedClock(NOON_MS)
  stalled = stallable(house.database)
  till = openTill(stalled.database, 0, clock, () => {}, 0n, [], CHARGE_DEADLINE_MS)
  organization = await house.organization(GRANTED)
  share = till.share(organization)
  // So that the day's partition is known, and the next statement is that which posts.
  await post(1n).answer
  await house.grant(organization, 1n)
})

interface Sent {
  readonly chargeId: string
  readonly answer: Promise<Posted>
  /** Null while the call waits. */
  heard: Posted | null
}

function post(
  cost: bigint,
  mayGiveUp?: MayGiveUp,
  participants: readonly Participant[] = [],
  admittedAtMs = NOON_MS,
  model = 'svc/test',
): Sent {
  const charge = house.charge(organization, cost, { admittedAtMs, model })
  share.unpostedMicrocents += cost
  const answer = till.writer.post(charge, share, participants, mayGiveUp)
  const sent: Sent = { chargeId: charge.chargeId, answer, heard: null }
  void answer.then((posted) => {
    sent.heard = posted
  })
  return sent
}

const kindsOf = (sent: readonly Sent[]) => sent.map(({ heard }) => heard?.kind ?? null)

/** Lets the first charge go out alone, so that what is posted next waits behind it. */
async function statementsUnderWay(count: number): Promise<void> {
  while (stalled.waiting < count) await house.database.query('select 1')
}

/** Turns the clock until nothing is left to post: retries wait for it, the database does not. */
async function posted(): Promise<void> {
  while (till.writer.backlog > 0) {
    await clock.turn(10)
    await house.database.query('select 1')
  }
}

async function refunds(): Promise<{ source: string; amount: bigint }[]> {
  return await house.database.query(
    `select source, amount_microcents as amount from ledger_entries
     where organization_id = $1::uuid and kind = 'refund' order by posted_at, source`,
    [organization],
  )
}

const isPosted = async ({ answer }: Sent) => {
  const heard = await answer
  return heard.kind === 'late' ? await heard.isPosted : null
}

async function expectSettled(left: bigint): Promise<void> {
  await posted()
  expect(await readBalance(house.database, organization)).toBe(left)
  expect(await house.imbalances()).toEqual([])
  expect([share.unpostedMicrocents, till.writer.backlog, till.writer.oldestAgeMs, clock.pending]).toEqual([0n, 0, 0, 0])
}

test('at the deadline, and not before, a charge that was not sent is withdrawn: its money is free, and it is never posted', async () => {
  stalled.stall('before')
  const first = post(5n, WHOLE)
  await statementsUnderWay(1)
  await clock.turn(SECOND_MS)
  const second = post(7n, WHOLE)
  let woken = 0
  share.wait(() => {
    woken += 1
  })
  await clock.turn(CHARGE_DEADLINE_MS - 1)
  expect(kindsOf([first, second])).toEqual(['late', null])
  expect(share.unpostedMicrocents).toBe(12n)
  await clock.turn(1)
  expect(kindsOf([first, second])).toEqual(['late', 'withdrawn'])
  expect([share.unpostedMicrocents, woken, till.writer.backlog]).toEqual([5n, 1, 1])
  stalled.recover('answered')
  await expectSettled(GRANTED)
  expect(await house.spent(organization)).toEqual({ microcents: 6n, charges: 2 })
  expect(await refunds()).toEqual([{ source: `refund:${first.chargeId}`, amount: 5n }])
})

test('a charge that is withdrawn while its batch is made ready leaves the writer to those that come after it', async () => {
  stalled.stall('before')
  // The partition of its day is looked for first.
  const first = post(5n, WHOLE, [], NOON_MS - DAY_MS)
  await statementsUnderWay(1)
  await clock.turn(CHARGE_DEADLINE_MS)
  stalled.recover('answered')
  const second = post(7n, WHOLE)
  for (let turns = 0; turns < TURNS_MOST && second.heard === null; turns += 1) {
    await clock.turn(10)
    await house.database.query('select 1')
  }
  expect(kindsOf([first, second])).toEqual(['withdrawn', 'posted'])
  await expectSettled(GRANTED - 7n)
})

describe.each<[Stall, 'answered' | 'lost']>([
  ['before', 'answered'],
  ['before', 'lost'],
  ['after', 'answered'],
  ['after', 'lost'],
])('a charge that was sent, %s the database carries it out; then the statement is %s', (stall, recovery) => {
  test('is posted once, and credited once where nobody got the answer', async () => {
    stalled.stall(stall)
    const sent = post(5n, WHOLE)
    await statementsUnderWay(1)
    await clock.turn(CHARGE_DEADLINE_MS)
    expect(kindsOf([sent])).toEqual(['late'])
    expect(share.unpostedMicrocents).toBe(5n)
    stalled.recover(recovery)
    await expectSettled(GRANTED)
    expect(await isPosted(sent)).toBe(true)
    expect(await house.spent(organization)).toEqual({ microcents: 6n, charges: 2 })
    expect(await refunds()).toEqual([{ source: `refund:${sent.chargeId}`, amount: 5n }])
  })

  test('stands where it is a stream or a hang-up, sent or not', async () => {
    stalled.stall(stall)
    const sent = post(5n, STANDS)
    await statementsUnderWay(1)
    const waiting = [post(7n, STANDS), post(11n)]
    await clock.turn(CHARGE_DEADLINE_MS)
    expect(kindsOf([sent, ...waiting])).toEqual(['late', 'late', 'late'])
    stalled.recover(recovery)
    await expectSettled(GRANTED - 23n)
    for (const each of [sent, ...waiting]) expect(await isPosted(each)).toBe(true)
    expect(await refunds()).toEqual([])
  })

  test('stands with what joins it, as the answer of an Idempotency-Key', async () => {
    await house.database.query('create table if not exists ridden (id uuid primary key)')
    const participant =
      (id: string): Participant =>
      async (tx) => {
        await tx.query('insert into ridden values ($1::uuid) on conflict do nothing', [id])
        return true
      }
    const id = crypto.randomUUID()
    stalled.stall(stall)
    const sent = post(5n, WHOLE, [participant(id)])
    await statementsUnderWay(1)
    await clock.turn(CHARGE_DEADLINE_MS)
    // Where the transaction never began, nothing was sent.
    const isSent = stall === 'after'
    expect(kindsOf([sent])).toEqual([isSent ? 'late' : 'withdrawn'])
    stalled.recover(recovery)
    await expectSettled(isSent ? GRANTED - 5n : GRANTED)
    expect(await isPosted(sent)).toBe(isSent ? true : null)
    expect(await refunds()).toEqual([])
    expect(await house.database.query('select 1 from ridden where id = $1::uuid', [id])).toHaveLength(isSent ? 1 : 0)
  })
})

test('of one batch each charge has its own end: credited, kept, superseded, standing', async () => {
  stalled.stall('after')
  const [whole, keyed, superseded, stream] = [
    post(5n, WHOLE),
    post(7n, WHOLE, [OURS]),
    post(11n, WHOLE, [ANOTHERS]),
    post(13n, STANDS),
  ]
  const all = [whole, keyed, superseded, stream]
  await statementsUnderWay(1)
  await clock.turn(CHARGE_DEADLINE_MS)
  expect(kindsOf(all)).toEqual(['late', 'late', 'late', 'late'])
  stalled.recover('lost')
  await expectSettled(GRANTED - 20n)
  expect(await Promise.all(all.map(isPosted))).toEqual([true, true, false, true])
  expect(await refunds()).toEqual([{ source: `refund:${whole.chargeId}`, amount: 5n }])
})

test('a charge with participants that waits in line is withdrawn, and they never run', async () => {
  let rode = 0
  const participant: Participant = () => {
    rode += 1
    return Promise.resolve(true)
  }
  stalled.stall('before')
  const first = post(5n, STANDS)
  await statementsUnderWay(1)
  const second = post(7n, WHOLE, [participant])
  await clock.turn(CHARGE_DEADLINE_MS)
  expect(kindsOf([first, second])).toEqual(['late', 'withdrawn'])
  stalled.recover('answered')
  await expectSettled(GRANTED - 5n)
  expect(rode).toBe(0)
})

test('a credit whose commit fails is tried again, and is made once', async () => {
  stalled.stall('before')
  const sent = post(5n, WHOLE)
  await statementsUnderWay(1)
  await clock.turn(CHARGE_DEADLINE_MS)
  stalled.recover('lost')
  for (const stall of ['before', 'after', 'after'] as const) {
    stalled.stall(stall)
    while (stalled.waiting === 0) {
      await clock.turn(SECOND_MS)
      await house.database.query('select 1')
    }
    stalled.recover('lost')
  }
  await expectSettled(GRANTED)
  expect(await isPosted(sent)).toBe(true)
  expect(await refunds()).toEqual([{ source: `refund:${sent.chargeId}`, amount: 5n }])
})

test('a charge that the operator has refunded meanwhile is not credited again', async () => {
  stalled.stall('after')
  const sent = post(5n, WHOLE)
  await statementsUnderWay(1)
  await clock.turn(CHARGE_DEADLINE_MS)
  const { chargeId } = sent
  const refund = { chargeId, amountMicrocents: 3n, note: null, atMs: clock.now() }
  expect((await refundCharge(house.database, systemRandom(), refund)).kind).toBe('refunded')
  stalled.recover('lost')
  await expectSettled(GRANTED - 2n)
  expect(await refunds()).toEqual([{ source: `refund:${chargeId}`, amount: 3n }])
})

test('a late charge that the database refuses is dead and not credited; those beside it are posted', async () => {
  stalled.stall('before')
  const good = post(5n, WHOLE)
  await statementsUnderWay(1)
  const bad = house.charge(organization, 7n, { outcome: 'unheard of' as 'cut' })
  share.unpostedMicrocents += 7n
  const ended = till.writer.post(bad, share, [], STANDS)
  await clock.turn(CHARGE_DEADLINE_MS)
  stalled.recover('lost')
  await expectSettled(GRANTED)
  expect(till.dead.map(({ chargeId }) => chargeId)).toEqual([bad.chargeId])
  expect(await refunds()).toEqual([{ source: `refund:${good.chargeId}`, amount: 5n }])
  const heard = await ended
  expect(heard.kind === 'late' && (await heard.isPosted)).toBe(true)
})

/** No text of PostgreSQL has the character 0: the row of `served_models` that comes before the charge is refused. */
const POISONED = 'svc/poi\0son'

test('a charge that the database refuses, withdrawn meanwhile, frees its money once and is not dead; the one beside it is posted', async () => {
  stalled.stall('before')
  const bad = post(7n, WHOLE, [], NOON_MS, POISONED)
  const good = post(5n, STANDS)
  await statementsUnderWay(1)
  await clock.turn(CHARGE_DEADLINE_MS)
  expect(kindsOf([bad, good])).toEqual(['withdrawn', 'late'])
  stalled.recover('answered')
  await expectSettled(GRANTED - 5n)
  expect(await isPosted(good)).toBe(true)
  expect(till.dead).toEqual([])
})

test('a refused charge whose deadline comes while it is kept in dead_charges is dead, and frees its money once', async () => {
  stalled.stall('before')
  const bad = post(7n, WHOLE, [], NOON_MS, POISONED)
  await statementsUnderWay(1)
  stalled.recover('answered')
  // The next statement is that which keeps it.
  stalled.stall('before')
  await statementsUnderWay(1)
  await clock.turn(CHARGE_DEADLINE_MS)
  expect(kindsOf([bad])).toEqual(['late'])
  stalled.recover('answered')
  await expectSettled(GRANTED)
  expect(await isPosted(bad)).toBe(true)
  expect(till.dead.map(({ chargeId }) => chargeId)).toEqual([bad.chargeId])
  expect(await refunds()).toEqual([])
})

test('a charge of nothing is credited nothing', async () => {
  stalled.stall('after')
  const sent = post(0n, WHOLE)
  await statementsUnderWay(1)
  await clock.turn(CHARGE_DEADLINE_MS)
  stalled.recover('lost')
  await expectSettled(GRANTED)
  expect(await isPosted(sent)).toBe(true)
  expect(await refunds()).toEqual([])
})

test('whenever the database stalls and comes back, each call is told once and the books say what it was told', async () => {
  const random = seeded(14)
  // All at once, before anything stalls: a transaction that stalls may hold the lock of the account.
  const more = 200_000n
  await house.grant(organization, more)
  const sent: { readonly cost: bigint; readonly isWhole: boolean; readonly isKeyed: boolean; readonly call: Sent }[] =
    []
  const ends = ['posted', 'late', 'withdrawn'] as const
  const count = (kind: Posted['kind']) => sent.filter(({ call }) => call.heard?.kind === kind).length
  // A slow database lets few charges be posted in time: then it takes more steps until each end was seen.
  for (let step = 0; step < 1_200 || (step < 12_000 && ends.some((kind) => count(kind) <= 10)); step += 1) {
    for (let left = random.between(0, 3); left > 0; left -= 1) {
      const [isWhole, isKeyed, cost] = [random.percent(60), random.percent(30), BigInt(random.between(1, 9))]
      sent.push({ cost, isWhole, isKeyed, call: post(cost, () => isWhole, isKeyed ? [OURS] : []) })
    }
    if (random.percent(15)) stalled.stall(random.pick(['before', 'after']))
    await clock.turn(random.pick([0, 10, SECOND_MS, 20 * SECOND_MS, CHARGE_DEADLINE_MS]))
    if (random.percent(30)) stalled.recover(random.pick(['answered', 'lost']))
    await house.database.query('select 1')
  }
  stalled.recover('lost')
  await posted()
  const charged = await house.database.query<{ id: string }>(
    'select id from charges where organization_id = $1::uuid',
    [organization],
  )
  const charges = new Set(charged.map(({ id }) => id))
  const credited = new Set((await refunds()).map(({ source }) => source))
  let paid = 0n
  for (const { cost, isWhole, isKeyed, call } of sent) {
    const { kind } = await call.answer
    expect(charges.has(call.chargeId)).toBe(kind !== 'withdrawn')
    const isCredited = kind === 'late' && isWhole && !isKeyed
    expect(credited.has(`refund:${call.chargeId}`)).toBe(isCredited)
    if (kind !== 'withdrawn' && !isCredited) paid += cost
  }
  await expectSettled(GRANTED + more - paid)
  for (const kind of ends) expect(count(kind)).toBeGreaterThan(10)
})
