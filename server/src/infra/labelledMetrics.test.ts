import { expect, test } from 'bun:test'
import { Counter, Histogram, Registry } from 'prom-client'
import { fc } from '../../test/properties.ts'
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
      const seconds = labelledHistogram(ours, { ...names, name: 'seconds' }, BOUNDS)
      const things = labelledCounter(ours, { ...names, name: 'things_total' })
      const theirs = new Registry()
      const labelNames = [...names.labelNames]
      const histogram = new Histogram({ ...names, labelNames, name: 'seconds', buckets: BOUNDS, registers: [theirs] })
      const counter = new Counter({ ...names, labelNames, name: 'things_total', registers: [theirs] })
      for (const [first, second, value] of all) {
        seconds.add(first, second, value)
        things.add(first, second, value)
        histogram.observe({ first, second }, value)
        counter.inc({ first, second }, value)
      }
      expect(await linesOf(ours)).toEqual(await linesOf(theirs))
    }),
  )
})

test('what has begun is shown as 0, and counts from there', async () => {
  const registry = new Registry()
  const seconds = labelledHistogram(registry, { ...names, name: 'seconds' }, BOUNDS)
  const things = labelledCounter(registry, { ...names, name: 'things_total' })
  seconds.begin('a', 503)
  things.begin('a', 'b')
  const page = await registry.metrics()
  expect(page).toContain('seconds_bucket{le="+Inf",first="a",second="503"} 0')
  expect(page).toContain('seconds_count{first="a",second="503"} 0')
  expect(page).toContain('things_total{first="a",second="b"} 0')
  seconds.add('a', 503, 1)
  seconds.begin('a', 503)
  expect(await registry.metrics()).toContain('seconds_count{first="a",second="503"} 1')
})
