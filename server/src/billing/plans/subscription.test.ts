import { expect, test } from 'bun:test'
import { keepMeter, type MeterSpan, type Subscription, withMeterOf } from './subscription.ts'

/** A paid subscription of some days, perhaps with the meter of other days. */
function paid(days: readonly [from: number, to: number], meter?: readonly [from: number, to: number]): Subscription {
  const [periodStartMs, periodEndMs] = days
  const head = { planKey: 'small', paymentPrice: 'price_small', status: 'active', cancelAtPeriodEnd: false }
  const carriedMeter: MeterSpan | undefined = meter && { startMs: meter[0], untilMs: meter[1] }
  return { ...head, periodStartMs, periodEndMs, ...(carriedMeter === undefined ? {} : { carriedMeter }) }
}

const MONTH = paid([0, 30])
const { paymentPrice: _, ...BY_HAND } = MONTH

const cases: [string, Subscription | null, Subscription, [number, number] | null][] = [
  ['the first of all', null, MONTH, null],
  ['the same period, told of again', MONTH, MONTH, null],
  ['another plan in the same period', MONTH, { ...MONTH, paymentPrice: 'price_large' }, null],
  ['the next period', MONTH, paid([30, 60]), null],
  ['the next period but one', MONTH, paid([60, 90]), null],
  ['a year, begun within the month', MONTH, paid([10, 375]), [0, 30]],
  ['that year, told of again', paid([10, 375], [0, 30]), paid([10, 375]), [0, 30]],
  ['the year after it', paid([10, 375]), paid([375, 740]), null],
  ['a month again, while the first one is carried on', paid([10, 375], [0, 30]), paid([11, 41]), [0, 41]],
  ['that month, told of again', paid([11, 41], [0, 41]), paid([11, 41]), [0, 41]],
  ['the month after that', paid([11, 41], [0, 41]), paid([41, 71]), null],
  ['a month again, late', paid([10, 375], [0, 30]), paid([25, 55]), [0, 30]],
  ['a month, begun within a year', paid([0, 365]), paid([40, 70]), [0, 70]],
  ['a new one after one that was cancelled at once', { ...MONTH, status: 'canceled' }, paid([20, 50]), [0, 30]],
  ['a new one after one that has run out', { ...MONTH, status: 'canceled' }, paid([30, 60]), null],
  ['another one that began earlier', paid([10, 40]), paid([0, 30]), [10, 30]],
  ['a paid one within what the operator has given', BY_HAND, paid([10, 40]), null],
]
test.each(cases)('%s', (_name, before, next, meter) => {
  const { carriedMeter, ...rest } = withMeterOf(before, next)
  expect(rest).toEqual(next)
  expect(carriedMeter ?? null).toEqual(meter && { startMs: meter[0], untilMs: meter[1] })
})

const kept: [string, Subscription, Subscription, [number, number] | null][] = [
  ['a meter of its own', MONTH, paid([0, 45]), null],
  ['a meter that is carried on, and a later end', paid([10, 40], [0, 30]), paid([10, 70]), [0, 30]],
  ['a meter that is carried on, and an end before the meter is over', paid([10, 40], [0, 30]), paid([10, 20]), [0, 20]],
]
test.each(kept)('the operator changes a period that has %s', (_name, before, next, meter) => {
  const { carriedMeter, ...rest } = keepMeter(before, next)
  expect(rest).toEqual(next)
  expect(carriedMeter ?? null).toEqual(meter && { startMs: meter[0], untilMs: meter[1] })
})
