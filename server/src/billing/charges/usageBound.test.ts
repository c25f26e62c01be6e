import { expect, test } from 'bun:test'
import { fc } from '../../../test/properties.ts'
import { boundUsage, usageBound } from './usageBound.ts'

const count = fc.nat(100_000)
const tokens = fc
  .record({ promptTokens: count, cachedPromptTokens: count, completionTokens: count })
  .map((usage) => ({ ...usage, cachedPromptTokens: Math.min(usage.cachedPromptTokens, usage.promptTokens) }))

test('no count passes its bound, prompt and completion together not the context, and nothing grows', () => {
  fc.assert(
    fc.property(
      fc.record({ usage: tokens, images: fc.record({ count, pixels: count }), videoSeconds: count }),
      fc.record({ promptTokens: count, completionTokens: count, totalTokens: count }),
      fc.record({ images: fc.record({ count, pixels: count }), videoSeconds: count }),
      (used, ofTokens, ofOthers) => {
        const bound = usageBound({ ...ofTokens, ...ofOthers })
        const { usage, images, videoSeconds } = boundUsage(used, bound)
        expect(usage.promptTokens).toBeLessThanOrEqual(Math.min(used.usage.promptTokens, bound.promptTokens))
        expect(usage.completionTokens).toBeLessThanOrEqual(
          Math.min(used.usage.completionTokens, bound.completionTokens),
        )
        expect(usage.promptTokens + usage.completionTokens).toBeLessThanOrEqual(bound.totalTokens)
        expect(usage.cachedPromptTokens).toBeLessThanOrEqual(usage.promptTokens)
        expect(usage.completionTokens).toBeGreaterThanOrEqual(0)
        expect(images.count).toBe(Math.min(used.images.count, bound.images.count))
        expect(images.pixels).toBe(Math.min(used.images.pixels, bound.images.pixels))
        expect(videoSeconds).toBe(Math.min(used.videoSeconds, bound.videoSeconds))
      },
    ),
  )
})

test('where prompt and completion pass the context, the completion is cut', () => {
  const bound = usageBound({ promptTokens: 80, completionTokens: Number.POSITIVE_INFINITY, totalTokens: 100 })
  const used = { usage: { promptTokens: 90, cachedPromptTokens: 85, completionTokens: 50 } }
  expect(boundUsage(used, bound).usage).toEqual({ promptTokens: 80, cachedPromptTokens: 80, completionTokens: 20 })
})

test('a class that a bound does not name is nothing', () => {
  const used = {
    usage: { promptTokens: 5, cachedPromptTokens: 0, completionTokens: 5 },
    images: { count: 2, pixels: 9 },
  }
  expect(boundUsage(used, usageBound({ promptTokens: 9 }))).toEqual({
    usage: { promptTokens: 5, cachedPromptTokens: 0, completionTokens: 0 },
    images: { count: 0, pixels: 0 },
  })
})
