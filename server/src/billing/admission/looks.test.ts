import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { admitCall } from '../../../test/admitCall.ts'
import { TurnedClock } from '../../../test/clock.ts'
import { countRenewals, type House, openHouse, openTill, type Till } from '../../../test/moneyHouse.ts'
import { SECOND_MS } from '../../lib/time.ts'
import { setLimit } from './accounts/limit.ts'
import { readBalance } from './balance/balance.ts'
import type { Figures } from './gates.ts'
import { Looks, type Seen } from './looks.ts'
import { Share } from './share.ts'

const NOON_MS = Date.UTC(2030, 0, 15, 12)

/** Of an account with `granted` of its balance in processes. */
function figuresOf(balanceMicrocents: bigint, granted = 90n): Figures {
  return {
    balanceMicrocents,
    sharesMicrocents: granted,
    heldMicrocents: 0n,
    instancesHeldMicrocents: 0n,
    burnMicrocents: 0n,
    daySpentMicrocents: 0n,
    monthSpentMicrocents: 0n,
    hourSpentMicrocents: 0n,
    isNew: false,
    dailyLimitMicrocents: null,
    monthlyLimitMicrocents: null,
    enforcement: 'block_launch',
  }
}

describe('looks', () => {
  /** Reads of accounts, each answered when the test says so. */
  function openLooks() {
    const clock = new TurnedClock(NOON_MS)
    const reads: {
      readonly of: string
      readonly answer: (figures: Figures | null) => void
      readonly fail: () => void
    }[] = []
    const looks = new Looks(clock, (of) => {
      const { promise, resolve, reject } = Promise.withResolvers<Figures | null>()
      reads.push({ of, answer: resolve, fail: () => reject(new Error('away')) })
      return promise
    })
    const see = (organizationId: string, needed: bigint, share = new Share(organizationId)) =>
      looks.see(share, { wholeMicrocents: needed, firstStepMicrocents: needed })
    return { clock, reads, see }
  }

  const cases: [string, Figures, { readonly whole: bigint; readonly first?: bigint; readonly here?: bigint }, Seen][] =
    [
      ['there is enough', figuresOf(100n, 0n), { whole: 100n }, 'ask'],
      ['there is enough beside what is here', figuresOf(100n, 40n), { whole: 100n, here: 40n }, 'ask'],
      ['others may give back enough', figuresOf(100n), { whole: 100n }, 'wait'],
      ['others may give back enough beside what is here', figuresOf(100n), { whole: 100n, here: 89n }, 'wait'],
      ['others may give back enough to begin', figuresOf(100n), { whole: 101n, first: 100n }, 'wait'],
      ['only calls here have something', figuresOf(100n), { whole: 101n, first: 100n, here: 90n }, 'ask'],
      ['it is too little, whatever comes back', figuresOf(100n), { whole: 101n }, 'balance'],
      ['a limit leaves too little', { ...figuresOf(100n), dailyLimitMicrocents: 20n }, { whole: 30n }, 'daily'],
    ]
  test.each(cases)(
    'say what is to be done where %s',
    async (_name, figures, { whole, first = whole, here = 0n }, seen) => {
      const looks = new Looks(new TurnedClock(NOON_MS), async () => figures)
      const share = new Share('one')
      share.grantedMicrocents = here
      // Of calls under way: it can't be had.
      share.heldMicrocents = here
      expect(await looks.see(share, { wholeMicrocents: whole, firstStepMicrocents: first })).toBe(seen)
    },
  )

  test('a look that began before a call came says nothing to it: it joins the next, with all that came meanwhile', async () => {
    const { reads, see } = openLooks()
    const first = see('one', 10n)
    const later = [see('one', 10n), see('one', 20n)]
    expect(reads.length).toBe(1)
    reads[0]?.answer(figuresOf(0n))
    expect(await first).toBe('balance')
    expect(reads.length).toBe(2)
    reads[1]?.answer(figuresOf(15n, 0n))
    expect(await Promise.all(later)).toEqual(['ask', 'balance'])
    void see('one', 10n)
    expect(reads.length).toBe(3)
  })

  test('what is posted here during a look is not what others may give back', async () => {
    const { reads, see } = openLooks()
    const share = new Share('one')
    share.grantedMicrocents = 90n
    share.unpostedMicrocents = 90n
    const asked = see('one', 20n, share)
    share.unpostedMicrocents = 0n
    share.postedMicrocents = 90n
    reads[0]?.answer(figuresOf(100n, 90n))
    expect(await asked).toBe('ask')
  })

  test('four accounts are looked at at once; another is asked by a renewal', async () => {
    const { reads, see } = openLooks()
    const asked = ['a', 'b', 'c', 'd'].map((each) => see(each, 10n))
    expect(await see('e', 10n)).toBe('ask')
    expect(reads.map(({ of }) => of)).toEqual(['a', 'b', 'c', 'd'])
    for (const { answer } of reads) answer(figuresOf(0n))
    expect(await Promise.all(asked)).toEqual(['balance', 'balance', 'balance', 'balance'])
    void see('e', 10n)
    expect(reads.length).toBe(5)
  })

  test('a look that fails, finds no account, or takes too long says nothing', async () => {
    const { clock, reads, see } = openLooks()
    const [failed, none, late] = ['a', 'b', 'c'].map((each) => see(each, 10n))
    reads[0]?.fail()
    reads[1]?.answer(null)
    expect(await Promise.all([failed, none])).toEqual(['ask', 'ask'])
    await clock.turn(SECOND_MS / 2)
    expect(await late).toBe('ask')
  })
})

describe('calls after a refusal', () => {
  let house: House
  beforeAll(async () => {
    house = await openHouse(new TurnedClock(NOON_MS))
  })
  afterAll(() => house.drop())

  /** A till that counts its renewals. */
  function openCounted(clock: TurnedClock) {
    const { database, renewals } = countRenewals(house.database)
    return { till: openTill(database, 0, clock), renewals }
  }

  async function ask(till: Till, organizationId: string, microcents: bigint): Promise<string> {
    const call = { organizationId, keyId: organizationId, model: 'svc/test', tier: 'serverless' } as const
    const worst = { wholeMicrocents: microcents, firstStepMicrocents: microcents }
    const answer = await admitCall(till, { ...call, priceHash: new Uint8Array(32) }, worst)
    if (answer.ok) answer.value.hold.release()
    return answer.ok ? 'admitted' : answer.refusal.code
  }

  test('ask the account for nothing, and pass as soon as there is money', async () => {
    const clock = new TurnedClock(NOON_MS)
    const { till, renewals } = openCounted(clock)
    const organization = await house.organization(50n)
    expect(await ask(till, organization, 100n)).toBe('insufficient_balance')
    expect(renewals()).toBe(1)
    const many = await Promise.all(Array.from({ length: 50 }, () => ask(till, organization, 100n)))
    expect(new Set(many)).toEqual(new Set(['insufficient_balance']))
    expect(renewals()).toBe(1)
    await house.grant(organization, 50n)
    expect(await ask(till, organization, 100n)).toBe('admitted')
    expect(await readBalance(house.database, organization)).toBe(100n)
  })

  test('that need less, or another gate has opened for, are admitted', async () => {
    const clock = new TurnedClock(NOON_MS)
    const { till } = openCounted(clock)
    const organization = await house.organization(1_000n)
    const limit = (dailyMicrocents: bigint) =>
      setLimit(house.database, organization, {
        monthlyMicrocents: 100_000n,
        dailyMicrocents,
        enforcement: 'block_launch',
        autoTerminateHours: undefined,
      })
    await limit(50n)
    expect(await ask(till, organization, 100n)).toBe('quota_exceeded')
    expect(await ask(till, organization, 40n)).toBe('admitted')
    expect(await ask(till, organization, 100n)).toBe('quota_exceeded')
    await limit(200n)
    expect(await ask(till, organization, 100n)).toBe('admitted')
  })

  test('a second later the account is asked again', async () => {
    const clock = new TurnedClock(NOON_MS)
    const { till, renewals } = openCounted(clock)
    const organization = await house.organization(0n)
    await ask(till, organization, 100n)
    await ask(till, organization, 100n)
    expect(renewals()).toBe(1)
    await clock.turn(SECOND_MS / 2)
    await ask(till, organization, 100n)
    expect(renewals()).toBe(1)
    // It folds what was charged meanwhile, however many calls are refused.
    await clock.turn(SECOND_MS / 2)
    await ask(till, organization, 100n)
    expect(renewals()).toBe(2)
  })
})
