import { expect, test } from 'bun:test'
import { chooseSubscription } from './subscriptionFacts.ts'

/** Each as `name status`, with `!` where it was found to be one too many before; the first is the oldest. The price of `x` has no plan. */
test.each([
  [[], null, []],
  [['a active'], 'a', []],
  [['a active', 'b active'], 'a', ['b']],
  [['a trialing', 'b active', 'c past_due'], 'a', ['b', 'c']],
  [['a past_due', 'b active'], 'b', ['a']],
  [['a active !', 'b active'], 'b', []],
  [['x active'], 'x', []],
  [['x active', 'b active'], 'b', ['x']],
  [['a active', 'x active'], 'a', ['x']],
  [['x active', 'b past_due'], 'b', []],
  [['a canceled', 'b active'], 'b', []],
  [['a past_due', 'b unpaid'], 'b', []],
  [['a canceled', 'b canceled'], 'b', []],
  [['a past_due', 'b canceled'], 'a', []],
  [['a canceled !', 'b canceled !'], null, []],
])('of %j %s counts, and %j are too many', (given, expected, tooMany) => {
  const candidates = given.map((text, index) => {
    const [subscription = '', status = '', mark] = text.split(' ')
    return { subscription, status, createdAtMs: index, isSurplus: mark === '!' }
  })
  const hasPlan = ({ subscription }: { subscription: string }) => subscription !== 'x'
  const { current, surplus } = chooseSubscription(candidates, hasPlan)
  expect(current?.subscription ?? null).toBe(expected)
  expect(surplus.map(({ subscription }) => subscription)).toEqual(tooMany)
  const reversed = chooseSubscription(candidates.toReversed(), hasPlan)
  expect(reversed.current).toEqual(current)
})
