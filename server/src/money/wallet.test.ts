import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { Hold, Wallet } from './wallet.ts'

/** What the wallet must come to, kept apart from it. */
interface Model {
  granted: bigint
  posted: bigint
  unposted: bigint
  /** Null: ended. */
  readonly holds: (bigint | null)[]
  waiting: number
}

interface Real {
  readonly wallet: Wallet
  readonly holds: Hold[]
  woken: number
}

const sum = (amounts: readonly (bigint | null)[]) => amounts.reduce<bigint>((total, each) => total + (each ?? 0n), 0n)
const heldOf = (model: Model) => sum(model.holds)
const spendableOf = (model: Model) => model.granted - model.posted - model.unposted - heldOf(model)

/** A step of the machine: does the same to both, then compares all there is to see. */
function step(name: string, run: (model: Model, real: Real) => void): fc.Command<Model, Real> {
  return {
    check: () => true,
    run(model, real) {
      const endedBefore = model.holds.filter((hold) => hold === null).length
      const waitingBefore = model.waiting
      run(model, real)
      const { wallet } = real
      expect(wallet.heldMicrocents).toBe(heldOf(model))
      expect(wallet.heldMicrocents >= 0n).toBe(true)
      expect(wallet.spendableMicrocents).toBe(spendableOf(model))
      expect(real.holds.map((hold) => (hold.isOpen ? hold.microcents : null))).toEqual(model.holds)
      // A hold that ends wakes everybody who waited for that.
      if (model.holds.filter((hold) => hold === null).length > endedBefore) {
        model.waiting = 0
        expect(real.woken).toBe(waitingBefore)
      }
      expect(wallet.waitingCalls).toBe(model.waiting)
      real.woken = 0
    },
    toString: () => name,
  }
}

const amount = fc.bigInt({ min: 0n, max: 1_000n })

const take = amount.map((microcents) =>
  step(`take ${microcents}`, (model, { wallet, holds }) => {
    holds.push(new Hold(wallet, microcents))
    model.holds.push(microcents)
  }),
)
const extend = fc.tuple(fc.nat(20), amount).map(([pick, microcents]) =>
  step(`extend ${pick} to ${microcents}`, (model, { holds }) => {
    const index = holds.length === 0 ? -1 : pick % holds.length
    const before = model.holds[index]
    const hold = holds[index]
    if (hold === undefined || before === undefined) return
    const more = microcents - (before ?? 0n)
    if (before !== null && more > 0n) {
      const fits = spendableOf(model) >= more
      expect(hold.tryExtend(microcents)).toBe(fits)
      if (fits) model.holds[index] = microcents
    } else {
      hold.tryExtend(microcents)
    }
  }),
)
const end = (how: 'release' | 'spend') =>
  fc.tuple(fc.nat(20), amount).map(([pick, cost]) =>
    step(`${how} ${pick} (${cost})`, (model, { holds }) => {
      const index = holds.length === 0 ? -1 : pick % holds.length
      const hold = holds[index]
      if (hold === undefined) return
      const wasOpen = model.holds[index] !== null
      model.holds[index] = null
      if (how === 'release') return hold.release()
      if (!wasOpen) {
        expect(() => hold.spend(cost)).toThrow('ended')
        return
      }
      hold.spend(cost)
      model.unposted += cost
    }),
  )
const refill = amount.map((granted) =>
  step(`refill to ${granted}`, (model, { wallet }) => {
    wallet.grantedMicrocents = granted
    wallet.postedMicrocents = 0n
    model.granted = granted
    model.posted = 0n
  }),
)
const post = fc.nat(100).map((percent) =>
  step(`post ${percent} %`, (model, { wallet }) => {
    const part = (model.unposted * BigInt(percent)) / 100n
    wallet.unpostedMicrocents -= part
    wallet.postedMicrocents += part
    model.unposted -= part
    model.posted += part
  }),
)
const forget = fc.constant(
  step('forget', (model, { wallet }) => {
    wallet.forgetAllotment()
    model.granted = 0n
    model.posted = 0n
  }),
)
const wait = fc.constant(
  step('wait', (model, real) => {
    real.wallet.wait(() => {
      real.woken += 1
    })
    model.waiting += 1
  }),
)
const giveUp = fc.constant(
  step('wait and give up', (_, real) => {
    const leave = real.wallet.wait(() => {
      real.woken += 1
    })
    leave()
    leave()
  }),
)

test('a wallet keeps its identity through anything that calls and refills do', () => {
  fc.assert(
    fc.property(
      fc.commands([take, take, extend, extend, end('release'), end('spend'), refill, post, forget, wait, giveUp], {
        maxCommands: 60,
      }),
      (commands) => {
        const setup = () => ({
          model: { granted: 0n, posted: 0n, unposted: 0n, holds: [], waiting: 0 } as Model,
          real: { wallet: new Wallet('organization'), holds: [], woken: 0 } as Real,
        })
        fc.modelRun(setup, commands)
      },
    ),
    { numRuns: 300 },
  )
})

test('a hold ends once: what comes after is an error or nothing', () => {
  const wallet = new Wallet('organization')
  wallet.grantedMicrocents = 100n
  const released = new Hold(wallet, 30n)
  released.release()
  released.release()
  expect(() => released.spend(10n)).toThrow('ended')
  const spent = new Hold(wallet, 30n)
  spent.spend(10n)
  spent.release()
  expect(() => spent.spend(10n)).toThrow('ended')
  expect(spent.tryExtend(50n)).toBe(false)
  expect(spent.tryExtend(5n)).toBe(false)
  expect([wallet.heldMicrocents, wallet.unpostedMicrocents, wallet.spendableMicrocents]).toEqual([0n, 10n, 90n])
})

test('calls are woken in the order they came, and one that is woken may wait again at once', () => {
  const wallet = new Wallet('organization')
  const order: string[] = []
  wallet.wait(() => {
    order.push('first')
    wallet.wait(() => order.push('first again'))
  })
  wallet.wait(() => order.push('second'))
  const leave = wallet.wait(() => order.push('left'))
  leave()
  wallet.wakeAll()
  expect(order).toEqual(['first', 'second'])
  wallet.wakeAll()
  expect(order).toEqual(['first', 'second', 'first again'])
})
