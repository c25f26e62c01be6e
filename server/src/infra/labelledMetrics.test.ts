import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { Counter, Histogram, Registry } from 'prom-client'
import { labelledCounter, labelledHistogram } from './labelledMetrics.ts'

const BOUNDS = [0.5, 1, 2.5]
const label = fc.constantFrom('a', 'b "quoted"', 'c\\d')
const additions = fc.array(
  fc.tuple(label, fc.oneof(label, fc.constantFrom(200, 503)), fc.constantFrom(0, 0.5, 0.7, 1, 2, 3)),
)
const names = { help: 'What it is.', labelNames: ['first', 'second'] as const }

/** The lines of a page, in any order: that of labels differs with when they came. */
const linesOf = async (registry: Registry) => (await registry.metrics()).split('\n').sort()

test('the page is the one that the library writes of the same additions', async () => {
  await fc.assert(
    fc.asyncProperty(additions, async (all) => {
      const ours = new Registry()
      const add = labelledHistogram(ours, { ...names, name: 'seconds' }, BOUNDS)
      const count = labelledCounter(ours, { ...names, name: 'things_total' })
      const theirs = new Registry()
      const labelNames = [...names.labelNames]
      const histogram = new Histogram({ ...names, labelNames, name: 'seconds', buckets: BOUNDS, registers: [theirs] })
      const counter = new Counter({ ...names, labelNames, name: 'things_total', registers: [theirs] })
      for (const [first, second, value] of all) {
        add(first, second, value)
        count(first, second, value)
        histogram.observe({ first, second }, value)
        counter.inc({ first, second }, value)
      }
      expect(await linesOf(ours)).toEqual(await linesOf(theirs))
    }),
  )
})
