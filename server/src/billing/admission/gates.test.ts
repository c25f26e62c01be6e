import { expect, test } from 'bun:test'
import { fc } from '../../../test/properties.ts'
import {
  type AccountView,
  decide,
  exceededBy,
  firstInsufficient,
  GATES,
  type Headroom,
  NOTHING_LEFT,
  type WorstCase,
} from './gates.ts'

const hold = (microcents: bigint) => ({ kind: 'hold', microcents }) as const
const WAIT = { kind: 'wait' } as const
const REFUSE = { kind: 'refuse', gate: 'balance' } as const

test('the table of decisions', () => {
  const worst = { wholeMicrocents: 100n, firstStepMicrocents: 30n }
  for (const [spendable, held, decision] of [
    // Ample: the first step only.
    [10_000n, 0n, hold(30n)],
    [2_000n, 0n, hold(30n)],
    [2_000n, 7n, hold(30n)],
    // Enough: all that it can come to.
    [1_999n, 0n, hold(100n)],
    [100n, 0n, hold(100n)],
    [100n, 7n, hold(100n)],
    // Alone and short: all that is left, and it will be cut.
    [99n, 0n, hold(99n)],
    [30n, 0n, hold(30n)],
    [29n, 0n, REFUSE],
    [0n, 0n, REFUSE],
    [-1n, 0n, REFUSE],
    // Beside others: they may give back enough, or can't.
    [99n, 1n, WAIT],
    [29n, 1n, WAIT],
    [28n, 1n, REFUSE],
    [-70n, 100n, WAIT],
    [-71n, 100n, REFUSE],
  ] as const) {
    expect([spendable, held, decide(spendable, held, worst)]).toEqual([spendable, held, decision])
  }
})

test('a call that costs nothing needs nothing', () => {
  const free = { wholeMicrocents: 0n, firstStepMicrocents: 0n }
  expect(decide(0n, 0n, free)).toEqual(hold(0n))
  expect(decide(0n, 50n, free)).toEqual(hold(0n))
  expect(decide(10n, 0n, free)).toEqual(hold(0n))
})

const amount = fc.bigInt({ min: -1_000n, max: 5_000n })
const positive = fc.bigInt({ min: 0n, max: 1_000n })
const worstCase: fc.Arbitrary<WorstCase> = fc.tuple(positive, positive).map(([first, more]) => ({
  wholeMicrocents: first + more,
  firstStepMicrocents: first,
}))

test('never is more held than there is, nor less than the first step, nor more than the worst case', () => {
  fc.assert(
    fc.property(amount, positive, worstCase, (spendable, held, worst) => {
      const decision = decide(spendable, held, worst)
      if (decision.kind !== 'hold') return
      expect(decision.microcents <= spendable).toBe(true)
      expect(decision.microcents >= worst.firstStepMicrocents).toBe(true)
      expect(decision.microcents <= worst.wholeMicrocents).toBe(true)
      // Less than the worst case only where that is far away, or where nothing more will come.
      const isShort = decision.microcents < worst.wholeMicrocents
      if (isShort) expect(spendable >= 20n * worst.wholeMicrocents || held === 0n).toBe(true)
    }),
  )
})

test('a call is refused only when even all that others hold would not let it start', () => {
  fc.assert(
    fc.property(amount, positive, worstCase, (spendable, held, worst) => {
      const decision = decide(spendable, held, worst)
      if (decision.kind === 'refuse') expect(spendable + held < worst.firstStepMicrocents).toBe(true)
      if (decision.kind === 'wait') expect(held > 0n && spendable < worst.wholeMicrocents).toBe(true)
      // Once the others have given all of it back, whoever waited gets in.
      if (decision.kind === 'wait') expect(decide(spendable + held, 0n, worst).kind).toBe('hold')
    }),
  )
})

test('more money never turns a yes into a no', () => {
  fc.assert(
    fc.property(amount, positive, positive, worstCase, (spendable, more, held, worst) => {
      if (decide(spendable, held, worst).kind === 'hold') {
        expect(decide(spendable + more, held, worst).kind).toBe('hold')
      }
    }),
  )
})

const perhaps = fc.option(fc.bigInt({ min: -2_000n, max: 5_000n }))
const headroom: fc.Arbitrary<Headroom> = fc.record({
  balance: amount,
  daily: perhaps,
  monthly: perhaps,
  newAccount: perhaps,
})
const accountView: fc.Arbitrary<AccountView> = fc.record({ grantedToOthersMicrocents: positive, headroom })

test('a hold never goes past a gate, wherever the money lies', () => {
  fc.assert(
    fc.property(amount, positive, worstCase, accountView, (spendable, held, worst, other) => {
      const decision = decide(spendable, held, worst, other)
      if (decision.kind !== 'hold') return
      expect(decision.microcents <= spendable - exceededBy(other.headroom, GATES)).toBe(true)
    }),
  )
})

test('a refusal names the first gate in their order that not even all that is set aside would satisfy', () => {
  fc.assert(
    fc.property(amount, positive, worstCase, accountView, (spendable, held, worst, other) => {
      const decision = decide(spendable, held, worst, other)
      if (decision.kind !== 'refuse') return
      const all = spendable + held + other.grantedToOthersMicrocents
      expect(decision.gate).toBe(firstInsufficient(other.headroom, all, worst.firstStepMicrocents, GATES) ?? 'balance')
      for (const gate of GATES) {
        if (gate === decision.gate) break
        const left = other.headroom[gate]
        expect(left === null || left + all >= worst.firstStepMicrocents).toBe(true)
      }
    }),
  )
})

test('a further gate, or less headroom of one, never turns a no into a yes', () => {
  fc.assert(
    fc.property(amount, positive, worstCase, accountView, headroom, (spendable, held, worst, other, tighter) => {
      const least = (a: bigint | null, b: bigint | null) => (a === null ? b : b === null ? a : a < b ? a : b)
      const both = {
        balance: other.headroom.balance < tighter.balance ? other.headroom.balance : tighter.balance,
        daily: least(other.headroom.daily, tighter.daily),
        monthly: least(other.headroom.monthly, tighter.monthly),
        newAccount: least(other.headroom.newAccount, tighter.newAccount),
      }
      if (decide(spendable, held, worst, { ...other, headroom: both }).kind === 'hold') {
        expect(decide(spendable, held, worst, other).kind).toBe('hold')
      }
    }),
  )
})

test('money that lies elsewhere is waited for', () => {
  const worst = { wholeMicrocents: 100n, firstStepMicrocents: 30n }
  const elsewhere = (microcents: bigint) =>
    decide(20n, 0n, worst, { ...NOTHING_LEFT, grantedToOthersMicrocents: microcents })
  expect(elsewhere(10n)).toEqual(WAIT)
  expect(elsewhere(9n)).toEqual(REFUSE)
})
