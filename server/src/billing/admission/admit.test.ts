import { afterAll, beforeAll, expect, test } from 'bun:test'
import { admitCall } from '../../../test/admitCall.ts'
import { TurnedClock } from '../../../test/clock.ts'
import { type Fault, type House, openHouse, openTill, type Till, withFaults } from '../../../test/moneyHouse.ts'
import { settleCall } from '../../../test/settleCall.ts'
import type { Database } from '../../infra/postgres/database.ts'
import type { Result } from '../../lib/result.ts'
import { SECOND_MS } from '../../lib/time.ts'
import { setLimit } from './accounts/limit.ts'
import { type Admitted, extendHold } from './admit.ts'
import { readBalance } from './balance/balance.ts'

const NOON_MS = Date.UTC(2030, 0, 15, 12)
/** A token costs a micro-cent. */
const PRICE = { inputMicrocents: 1_000_000n, outputMicrocents: 0n, cachedInputMicrocents: null }

let house: House
beforeAll(async () => {
  house = await openHouse(new TurnedClock(NOON_MS))
})
afterAll(() => house.drop())

function ask(till: Till, organizationId: string, whole: bigint, firstStep = whole): Promise<Result<Admitted>> {
  const call = {
    organizationId,
    keyId: organizationId,
    model: 'svc/test',
    tier: 'serverless',
    priceHash: new Uint8Array(32),
  } as const
  return Promise.resolve(admitCall(till, call, { wholeMicrocents: whole, firstStepMicrocents: firstStep }))
}

async function grantedHold(asked: Promise<Result<Admitted>>): Promise<Admitted> {
  const answer = await asked
  if (!answer.ok) throw new Error(`refused: ${answer.refusal.code}`)
  return answer.value
}

async function code(asked: Promise<Result<Admitted>>): Promise<string> {
  const answer = await asked
  return answer.ok ? 'admitted' : answer.refusal.code
}

function charge(till: Till, admitted: Admitted, tokens: number): Promise<bigint | null> {
  return settleCall(till, admitted, PRICE, {
    usage: { promptTokens: tokens, cachedPromptTokens: 0, completionTokens: 0 },
    estimated: false,
    target: 'mock/test',
    outcome: 'completed',
  })
}

/** Lets the database answer, while the clock stands still, until so many calls wait for money. */
async function rest(till: Till, whenWaiting: number): Promise<void> {
  while (till.waitingCalls !== whenWaiting) await house.database.query('select 1')
}

/** A database that never answers. */
const SILENT: Database = {
  query: () => new Promise(() => {}),
  transaction: () => new Promise(() => {}),
  close: async () => {},
}

test('a balance for exactly N calls admits exactly N of those that come at once', async () => {
  const clock = new TurnedClock(NOON_MS)
  const till = openTill(house.database, 0, clock)
  const organization = await house.organization(1_000n)
  let admitted = 0
  let refused = 0
  await Promise.all(
    Array.from({ length: 30 }, async () => {
      const answer = await ask(till, organization, 100n)
      if (!answer.ok) {
        expect(answer.refusal.code).toBe('insufficient_balance')
        refused += 1
        return
      }
      admitted += 1
      await house.database.query('select 1')
      await charge(till, answer.value, 100)
    }),
  )
  expect([admitted, refused]).toEqual([10, 20])
  expect(await readBalance(house.database, organization)).toBe(0n)
  expect(await house.imbalances()).toEqual([])
  expect([till.waitingCalls, clock.pending]).toEqual([0, 0])
})

test('whichever gate is short, a chat call is told that a smaller max_tokens may be needed, and no other call is', async () => {
  const till = openTill(house.database, 0, new TurnedClock(NOON_MS))
  const limit = { dailyMicrocents: undefined, enforcement: undefined, autoTerminateHours: undefined }
  const organizations = {
    balance: await house.organization(100n),
    daily: await house.organization(10n ** 12n),
    monthly: await house.organization(10n ** 12n),
    newAccount: await house.organization(10n ** 12n, { newSinceMs: NOON_MS }),
  }
  await setLimit(house.database, organizations.daily, {
    ...limit,
    monthlyMicrocents: 10n ** 12n,
    dailyMicrocents: 100n,
  })
  await setLimit(house.database, organizations.monthly, { ...limit, monthlyMicrocents: 100n })
  for (const [gate, organizationId] of Object.entries(organizations)) {
    for (const modality of ['chat', 'embedding', 'image', null] as const) {
      const model = modality && { modality, planCovered: false, usageFactorThousandths: 1_000 }
      const worst = { wholeMicrocents: 10n ** 11n, firstStepMicrocents: 10n ** 11n }
      const call = { organizationId, keyId: organizationId, model: 'svc/test', tier: 'serverless' } as const
      const asked = await admitCall(till, { ...call, priceHash: new Uint8Array(32) }, worst, model)
      if (asked.ok) throw new Error(`${gate} admits`)
      expect([gate, modality, asked.refusal.code]).toEqual([
        gate,
        modality,
        gate === 'balance' ? 'insufficient_balance' : 'quota_exceeded',
      ])
      expect(asked.refusal.message.includes('A smaller max_tokens may be needed.')).toBe(modality === 'chat')
      expect(asked.refusal.message.includes('max_tokens')).toBe(modality === 'chat')
    }
  }
})

test('calls whose holds are larger than what they cost get in one after the other, to the last that fits', async () => {
  const till = openTill(house.database, 0, new TurnedClock(NOON_MS))
  const organization = await house.organization(1_000n)
  let admitted = 0
  await Promise.all(
    Array.from({ length: 30 }, async () => {
      const answer = await ask(till, organization, 300n)
      if (!answer.ok) return
      admitted += 1
      await house.database.query('select 1')
      await charge(till, answer.value, 100)
    }),
  )
  // Each holds 300: the eighth begins with 300 left, the ninth finds 200.
  expect(admitted).toBe(8)
  expect(await readBalance(house.database, organization)).toBe(200n)
})

test('a call that does not fit beside others waits for them, and is refused when 2 s bring nothing', async () => {
  const clock = new TurnedClock(NOON_MS)
  const till = openTill(house.database, 0, clock)
  const organization = await house.organization(100n)
  const first = await grantedHold(ask(till, organization, 100n))
  const lucky = ask(till, organization, 60n)
  await rest(till, 1)
  await clock.turn(2 * SECOND_MS - 1)
  expect(till.waitingCalls).toBe(1)
  const patient = ask(till, organization, 60n)
  await rest(till, 2)
  first.hold.release()
  const second = await grantedHold(lucky)
  await rest(till, 1)
  await clock.turn(2 * SECOND_MS)
  expect(await code(patient)).toBe('insufficient_balance')
  expect([till.waitingCalls, clock.pending]).toEqual([0, 0])
  second.hold.release()
  expect(till.share(organization).heldMicrocents).toBe(0n)
})

test('a call that needs little is let in as soon as it fits, though one that needs more came first', async () => {
  const clock = new TurnedClock(NOON_MS)
  const till = openTill(house.database, 0, clock)
  const organization = await house.organization(100n)
  const one = await grantedHold(ask(till, organization, 50n))
  const two = await grantedHold(ask(till, organization, 50n))
  const large = ask(till, organization, 90n)
  await rest(till, 1)
  const small = ask(till, organization, 40n)
  await rest(till, 2)
  one.hold.release()
  const third = await grantedHold(small)
  await rest(till, 1)
  two.hold.release()
  third.hold.release()
  const fourth = await grantedHold(large)
  expect(fourth.hold.microcents).toBe(90n)
  fourth.hold.release()
})

test('several who come at once to an account that has enough for all wait for nobody', async () => {
  const clock = new TurnedClock(NOON_MS)
  const till = openTill(house.database, 0, clock)
  const organization = await house.organization(100n)
  const first = await grantedHold(ask(till, organization, 5n))
  const others = await Promise.all([1, 2, 3].map(() => grantedHold(ask(till, organization, 30n))))
  for (const { hold } of [first, ...others]) hold.release()
  expect(clock.pending).toBe(0)
})

test('credit that comes while a call waits lets it in at the latest when its time is up', async () => {
  const clock = new TurnedClock(NOON_MS)
  const till = openTill(house.database, 0, clock)
  const organization = await house.organization(100n)
  const first = await grantedHold(ask(till, organization, 100n))
  const waiting = ask(till, organization, 80n)
  await rest(till, 1)
  await house.grant(organization, 200n)
  await clock.turn(2 * SECOND_MS)
  const second = await grantedHold(waiting)
  for (const { hold } of [first, second]) hold.release()
})

/** Asks for so many calls of an organization that holds all of its money; resolves once each waits or is turned away. */
async function crowd(till: Till, organization: string, calls: number) {
  const before = till.waitingCalls
  const first = await grantedHold(ask(till, organization, 100n))
  const turnedAway: string[] = []
  const asked = Array.from({ length: calls }, async () => {
    const answer = await ask(till, organization, 100n)
    if (answer.ok) answer.value.hold.release()
    else turnedAway.push(answer.refusal.code)
  })
  while (till.waitingCalls - before + turnedAway.length < calls) await house.database.query('select 1')
  return { first, turnedAway, waiting: till.waitingCalls - before, done: () => Promise.all(asked) }
}

test('one organization takes a quarter of the places to wait for money; its further calls may try again, and others wait', async () => {
  const clock = new TurnedClock(NOON_MS)
  const till = openTill(house.database, 0, clock)
  const [greedy, other] = [await house.organization(110n), await house.organization(100n)]
  const running = await grantedHold(ask(till, greedy, 10n))
  const crowded = await crowd(till, greedy, 1_000)
  expect([crowded.waiting, new Set(crowded.turnedAway)]).toEqual([250, new Set(['upstream_unavailable'])])
  const busy = await grantedHold(ask(till, other, 100n))
  const patient = ask(till, other, 100n)
  await rest(till, 251)
  busy.hold.release()
  ;(await grantedHold(patient)).hold.release()
  // A running call waits beside new ones: it would have to end.
  const extending = extendHold(till, running.hold, till.share(greedy), 20n)
  await rest(till, 251)
  crowded.first.hold.release()
  expect(await extending).toBe('extended')
  running.hold.release()
  await crowded.done()
  expect([till.waitingCalls, clock.pending]).toEqual([0, 0])
})

test('where all places to wait for money are taken, new calls and running ones are told to try again', async () => {
  const clock = new TurnedClock(NOON_MS)
  const till = openTill(house.database, 0, clock)
  const crowds = []
  for (let each = 0; each < 4; each += 1) crowds.push(await crowd(till, await house.organization(100n), 250))
  expect(till.waitingCalls).toBe(1_000)
  const late = await house.organization(100n)
  const [one, two] = [await grantedHold(ask(till, late, 60n)), await grantedHold(ask(till, late, 40n))]
  expect(await code(ask(till, late, 40n))).toBe('upstream_unavailable')
  expect(await extendHold(till, one.hold, till.share(late), 80n)).toBe('unavailable')
  for (const { hold } of [one, two]) hold.release()
  for (const { first, done } of crowds) {
    first.hold.release()
    await done()
  }
  expect([till.waitingCalls, clock.pending]).toEqual([0, 0])
})

test('a call whose worst case is more than there is gets, alone, all that is left', async () => {
  const till = openTill(house.database, 0, new TurnedClock(NOON_MS))
  const organization = await house.organization(70n)
  const { hold } = await grantedHold(ask(till, organization, 1_000n, 50n))
  expect(hold.microcents).toBe(70n)
  hold.release()
  expect(await code(ask(till, organization, 1_000n, 71n))).toBe('insufficient_balance')
})

test('a call that costs nothing is served without credit, and without asking the database', async () => {
  const till = openTill(SILENT, 0, new TurnedClock(NOON_MS))
  const { hold } = await grantedHold(ask(till, await house.organization(0n), 0n))
  hold.release()
})

test('the charge and its instant are born at admission', async () => {
  const clock = new TurnedClock(NOON_MS)
  const till = openTill(house.database, 0, clock)
  const organization = await house.organization(1_000n)
  const [one, two] = await Promise.all([1, 2].map(() => grantedHold(ask(till, organization, 10n))))
  expect(one?.admission.chargeId).not.toBe(two?.admission.chargeId)
  expect(one?.admission.admittedAtMs).toBe(NOON_MS)
  for (const admitted of [one, two]) admitted?.hold.release()
})

test('without the database nothing new is admitted: 503, soon, and nothing is held', async () => {
  const organization = await house.organization(1_000n)
  const away = openTill(
    withFaults(house.database, () => 'before'),
    0,
    new TurnedClock(NOON_MS),
  )
  const answer = await ask(away, organization, 10n)
  expect(answer).toMatchObject({ ok: false, refusal: { code: 'upstream_unavailable', retryAfterSeconds: 1 } })
  expect(away.share(organization).heldMicrocents).toBe(0n)

  const clock = new TurnedClock(NOON_MS)
  const silent = openTill(SILENT, 0, clock)
  const asked = ask(silent, organization, 10n)
  await clock.turn(2 * SECOND_MS)
  expect(await code(asked)).toBe('upstream_unavailable')
  expect(silent.share(organization).heldMicrocents).toBe(0n)
})

test('without its slot a process admits nothing', async () => {
  const till = openTill(house.database, 0, new TurnedClock(NOON_MS))
  const organization = await house.organization(10_000n)
  const { hold } = await grantedHold(ask(till, organization, 1n))
  hold.release()
  till.owns = false
  expect(await code(ask(till, organization, 1n))).toBe('upstream_unavailable')
})

test('a process that got its slot back asks the account before it spends anything', async () => {
  const till = openTill(house.database, 0, new TurnedClock(NOON_MS))
  const organization = await house.organization(1_000n)
  const { hold } = await grantedHold(ask(till, organization, 10n))
  expect(till.share(organization).spendableMicrocents).toBe(240n)
  till.forgetShares()
  // Meanwhile another folded what was granted here, and took all of it.
  await house.database.query('delete from account_shares where organization_id = $1::uuid', [organization])
  await house.database.query(
    'update accounts set shares_microcents = 0, balance_microcents = 0 where organization_id = $1::uuid',
    [organization],
  )
  expect(await code(ask(till, organization, 11n))).toBe('insufficient_balance')
  hold.release()
})

test('after 2 s of stalled commits nothing new is admitted, until they get through', async () => {
  const clock = new TurnedClock(NOON_MS)
  let fault: Fault = 'none'
  const till = openTill(
    withFaults(house.database, () => fault),
    0,
    clock,
  )
  const organization = await house.organization(100_000n)
  const admitted = await grantedHold(ask(till, organization, 10n))
  fault = 'before'
  const charged = charge(till, admitted, 10)
  await clock.turn(2 * SECOND_MS)
  ;(await grantedHold(ask(till, organization, 1n))).hold.release()
  await clock.turn(1)
  expect(await code(ask(till, organization, 1n))).toBe('upstream_unavailable')
  fault = 'none'
  await clock.turn(SECOND_MS)
  expect(await charged).toBe(10n)
  ;(await grantedHold(ask(till, organization, 1n))).hold.release()
  expect(till.share(organization).heldMicrocents).toBe(0n)
})

test('a hold is extended from the share at once, from the account when that has run low, and else not', async () => {
  const clock = new TurnedClock(NOON_MS)
  let fault: Fault = 'none'
  const till = openTill(
    withFaults(house.database, () => fault),
    0,
    clock,
  )
  const organization = await house.organization(1_000n)
  const share = till.share(organization)
  const { hold } = await grantedHold(ask(till, organization, 10n))
  expect(extendHold(till, hold, share, 200n)).toBe('extended')
  fault = 'before'
  expect(await extendHold(till, hold, share, 600n)).toBe('unavailable')
  expect(hold.microcents).toBe(200n)
  fault = 'none'
  expect(await extendHold(till, hold, share, 600n)).toBe('extended')
  expect(await extendHold(till, hold, share, 1_001n)).toBe('balance')
  expect(hold.microcents).toBe(600n)
  expect(await extendHold(till, hold, share, 1_000n)).toBe('extended')
  hold.release()
  expect(share.heldMicrocents).toBe(0n)
  expect(await house.imbalances()).not.toContainEqual(expect.objectContaining({ organization_id: organization }))
})

test('a usage that cannot be priced leaves the hold to be given back', async () => {
  const till = openTill(house.database, 0, new TurnedClock(NOON_MS))
  const organization = await house.organization(1_000n)
  const admitted = await grantedHold(ask(till, organization, 10n))
  await expect(charge(till, admitted, -1)).rejects.toThrow(RangeError)
  expect(admitted.hold.isOpen).toBe(true)
  admitted.hold.release()
  expect(till.writer.backlog).toBe(0)
})

test('a call is charged once', async () => {
  const till = openTill(house.database, 0, new TurnedClock(NOON_MS))
  const organization = await house.organization(1_000n)
  const admitted = await grantedHold(ask(till, organization, 10n))
  await charge(till, admitted, 4)
  await expect(charge(till, admitted, 4)).rejects.toThrow('ended')
  expect(await house.spent(organization)).toEqual({ microcents: 4n, charges: 1 })
})
