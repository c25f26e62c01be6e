import { expect, test } from 'bun:test'
import { fc } from '../../../test/properties.ts'
import { Hold, Share } from './share.ts'
import type { Renewed } from './wants.ts'

/** The amount that the share must come to, kept apart from it. */
interface Model {
  granted: bigint
  posted: bigint
  unposted: bigint
  /** Null: ended. */
  readonly holds: (bigint | null)[]
  /** To what each may be shrunk; null: it is not shrunk any more. */
  readonly leasts: (bigint | null)[]
  waiting: number
}

interface Real {
  readonly share: Share
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
      const { share } = real
      expect(share.heldMicrocents).toBe(heldOf(model))
      expect(share.heldMicrocents >= 0n).toBe(true)
      expect(share.spendableMicrocents).toBe(spendableOf(model))
      expect(real.holds.map((hold) => (hold.isOpen ? hold.microcents : null))).toEqual(model.holds)
      // A hold that ends wakes everybody who waited for that.
      if (model.holds.filter((hold) => hold === null).length > endedBefore) {
        model.waiting = 0
        expect(real.woken).toBe(waitingBefore)
      }
      expect(share.waitingCalls).toBe(model.waiting)
      real.woken = 0
    },
    toString: () => name,
  }
}

const amount = fc.bigInt({ min: 0n, max: 1_000n })

const take = fc.tuple(amount, amount).map(([microcents, least]) =>
  step(`take ${microcents}, at least ${least}`, (model, { share, holds }) => {
    holds.push(new Hold(share, microcents, least))
    model.holds.push(microcents)
    model.leasts.push(least < microcents ? least : null)
  }),
)
const use = fc.tuple(fc.nat(20), amount).map(([pick, least]) =>
  step(`use ${pick}, at least ${least}`, (model, { holds }) => {
    const index = holds.length === 0 ? -1 : pick % holds.length
    holds[index]?.follow({ leastMicrocents: () => least, onShrunk: () => {} })
    if (index >= 0) model.leasts[index] = least
  }),
)
const freeze = fc.nat(20).map((pick) =>
  step(`freeze ${pick}`, (model, { holds }) => {
    const index = holds.length === 0 ? -1 : pick % holds.length
    holds[index]?.freeze()
    if (index >= 0) model.leasts[index] = null
  }),
)
const shrink = fc.constantFrom<[boolean, bigint]>([true, -1n], [true, 0n], [false, -1n]).map(([stopsRunning, daily]) =>
  step(`a limit that leaves ${daily}, and ${stopsRunning ? 'stops' : 'lets go on'} what runs`, (model, real) => {
    const { share } = real
    const granted = model.granted - model.posted
    share.take(renewed(granted, stopsRunning, daily))
    const shrinks = stopsRunning && daily < 0n
    let freed = 0n
    for (const [index, hold] of model.holds.entries()) {
      const least = model.leasts[index] ?? null
      if (!shrinks || hold === null || least === null || least >= hold) continue
      freed += hold - least
      model.holds[index] = least
    }
    expect(share.shrinkHolds()).toBe(freed)
    if (freed > 0n) model.waiting = 0
    share.take(renewed(granted, stopsRunning, 0n))
    Object.assign(model, { granted, posted: 0n })
  }),
)
const renewed = (grantedMicrocents: bigint, stopsRunning: boolean, daily: bigint): Renewed => ({
  organizationId: 'organization',
  grantedMicrocents,
  exhaustedLimit: null,
  stopsRunning,
  dayStartMs: 0,
  reachesNotice: false,
  noticed: false,
  grantedToOthersMicrocents: 0n,
  headroom: { balance: 0n, daily, monthly: null, newAccount: null },
})
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
      const before = model.holds[index]
      const wasOpen = before !== null
      model.holds[index] = null
      if (how === 'release') return hold.release()
      if (!wasOpen) {
        expect(() => hold.spend(cost)).toThrow('ended')
        return
      }
      model.holds[index] = before ?? null
      if (cost > (before ?? 0n)) {
        expect(() => hold.spend(cost)).toThrow('more than was held')
        return
      }
      model.holds[index] = null
      hold.spend(cost)
      model.unposted += cost
    }),
  )
const renew = amount.map((granted) =>
  step(`renewal to ${granted}`, (model, { share }) => {
    share.grantedMicrocents = granted
    share.postedMicrocents = 0n
    model.granted = granted
    model.posted = 0n
  }),
)
const post = fc.nat(100).map((percent) =>
  step(`post ${percent} %`, (model, { share }) => {
    const part = (model.unposted * BigInt(percent)) / 100n
    share.unpostedMicrocents -= part
    share.postedMicrocents += part
    model.unposted -= part
    model.posted += part
  }),
)
const forget = fc.constant(
  step('forget', (model, { share }) => {
    share.forgetGrant()
    model.granted = 0n
    model.posted = 0n
  }),
)
const wait = fc.constant(
  step('wait', (model, real) => {
    real.share.wait(() => {
      real.woken += 1
    })
    model.waiting += 1
  }),
)
const giveUp = fc.constant(
  step('wait and give up', (_, real) => {
    const leave = real.share.wait(() => {
      real.woken += 1
    })
    leave()
    leave()
  }),
)

test('a share keeps its identity through anything that calls and renewals do', () => {
  fc.assert(
    fc.property(
      fc.commands(
        [
          take,
          take,
          use,
          freeze,
          shrink,
          extend,
          extend,
          end('release'),
          end('spend'),
          renew,
          post,
          forget,
          wait,
          giveUp,
        ],
        { maxCommands: 60 },
      ),
      (commands) => {
        const setup = () => ({
          model: { granted: 0n, posted: 0n, unposted: 0n, holds: [], leasts: [], waiting: 0 } as Model,
          real: { share: new Share('organization'), holds: [], woken: 0 } as Real,
        })
        fc.modelRun(setup, commands)
      },
    ),
    { numRuns: 300 },
  )
})

test('a hold ends once: what comes after is an error or nothing', () => {
  const share = new Share('organization')
  share.grantedMicrocents = 100n
  const released = new Hold(share, 30n)
  released.release()
  released.release()
  expect(() => released.spend(10n)).toThrow('ended')
  const spent = new Hold(share, 30n)
  spent.spend(10n)
  spent.release()
  expect(() => spent.spend(10n)).toThrow('ended')
  expect(spent.tryExtend(50n)).toBe(false)
  expect(spent.tryExtend(5n)).toBe(false)
  expect([share.heldMicrocents, share.unpostedMicrocents, share.spendableMicrocents]).toEqual([0n, 10n, 90n])
})

test('a hold is shrunk to what its owner says, who is told; not one of a plan, nor of a call in one piece', () => {
  const share = new Share('organization')
  share.grantedMicrocents = 1_000n
  const told: bigint[] = []
  const chat = new Hold(share, 300n, 200n)
  const whole = new Hold(share, 300n)
  const covered = new Hold(share, 0n, 0n, true)
  for (const hold of [chat, covered]) {
    hold.follow({ leastMicrocents: () => 50n, onShrunk: () => told.push(hold.microcents) })
  }
  share.take(renewed(1_000n, true, -1n))
  expect(share.shrinkHolds()).toBe(250n)
  expect(share.shrinkHolds()).toBe(0n)
  expect([chat, whole, covered].map(({ microcents }) => microcents)).toEqual([50n, 300n, 0n])
  expect(told).toEqual([50n])
})

test('calls are woken in the order they came, and one that is woken may wait again at once', () => {
  const share = new Share('organization')
  const order: string[] = []
  share.wait(() => {
    order.push('first')
    share.wait(() => order.push('first again'))
  })
  share.wait(() => order.push('second'))
  const leave = share.wait(() => order.push('left'))
  leave()
  share.wakeAll()
  expect(order).toEqual(['first', 'second'])
  share.wakeAll()
  expect(order).toEqual(['first', 'second', 'first again'])
})

test('a reclaim is answered while there is something to give back or to fold, or may be', () => {
  const share = new Share('organization')
  expect(share.hearReclaim(1)).toBe(true)
  share.take(renewed(100n, false, 0n))
  const hold = new Hold(share, 60n)
  expect(share.hearReclaim(2)).toBe(true)
  const rest = new Hold(share, 40n)
  expect([share.hearReclaim(3), share.reclaimedAtMs]).toEqual([false, 3])
  share.beginAsk()
  expect(share.hearReclaim(4)).toBe(true)
  share.endAsks(1)
  hold.spend(60n)
  expect(share.hearReclaim(5)).toBe(false)
  share.unpostedMicrocents = 0n
  share.postedMicrocents = 60n
  expect(share.hearReclaim(6)).toBe(true)
  share.take(renewed(40n, false, 0n))
  expect(share.hearReclaim(7)).toBe(false)
  rest.release()
  expect(share.hearReclaim(8)).toBe(true)
})

test('a reclaim is answered where a hold could be shrunk, and once more where an answer was lost', () => {
  const share = new Share('organization')
  share.take(renewed(100n, true, 0n))
  const chat = new Hold(share, 100n, 40n)
  expect(share.hearReclaim(1)).toBe(true)
  chat.freeze()
  expect(share.hearReclaim(2)).toBe(false)
  share.loseAnswer()
  expect(share.hearReclaim(3)).toBe(true)
  share.take(renewed(100n, true, 0n))
  expect(share.hearReclaim(4)).toBe(true)
  share.take(renewed(100n, true, 0n))
  expect(share.hearReclaim(5)).toBe(false)
})

test('a change is answered while there is something here, or may be by an answer that was lost; not because calls wait', () => {
  const share = new Share('organization')
  expect(share.hearChange(1)).toBe(true)
  share.take(renewed(0n, false, 0n))
  share.openUses = 2
  share.wait(() => {})
  expect([share.hearChange(2), share.reclaimedAtMs]).toEqual([false, 2])
  share.take(renewed(100n, false, 0n))
  expect(share.hearChange(3)).toBe(true)
  share.grantedMicrocents -= 60n
  const hold = new Hold(share, 40n)
  expect(share.hearChange(4)).toBe(true)
  hold.spend(40n)
  expect(share.hearChange(5)).toBe(true)
  share.take(renewed(0n, false, 0n))
  share.unpostedMicrocents = 0n
  expect(share.hearChange(6)).toBe(false)
})

test('a change that comes while the account is asked is answered when that has brought something, or failed', () => {
  const told: string[] = []
  const share = new Share('organization', () => told.push(share.organizationId))
  const ask = (answer: () => void) => {
    share.take(renewed(0n, false, 0n))
    share.beginAsk()
    // As the writer says while the question is under way.
    share.isCertain = false
    expect(share.hearChange(1)).toBe(false)
    answer()
    share.endAsks(1)
    return told.splice(0).length
  }
  expect(ask(() => share.take(renewed(0n, false, 0n)))).toBe(0)
  expect(ask(() => share.take(renewed(100n, false, 0n)))).toBe(1)
  expect(ask(() => {})).toBe(1)
  // It is told once, and by the last answer.
  share.take(renewed(0n, false, 0n))
  share.beginAsk()
  share.beginAsk()
  share.hearChange(2)
  share.take(renewed(100n, false, 0n))
  share.endAsks(1)
  expect(told).toEqual([])
  share.endAsks(1)
  share.beginAsk()
  share.endAsks(1)
  expect(told).toEqual(['organization'])
})
