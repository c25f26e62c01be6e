import { expect, test } from 'bun:test'
import { mapAtMost } from './mapAtMost.ts'

test('results are in the order of the values, and no more is under way than may be', async () => {
  let underWay = 0
  let most = 0
  const results = await mapAtMost([5, 1, 4, 2, 3], 2, async (value) => {
    underWay += 1
    most = Math.max(most, underWay)
    for (let turn = 0; turn < value; turn += 1) await null
    underWay -= 1
    return value * 10
  })
  expect({ results, most }).toEqual({ results: [50, 10, 40, 20, 30], most: 2 })
})

test('after a failure no more begins', async () => {
  const begun: number[] = []
  const work = mapAtMost([1, 2, 3, 4], 2, async (value) => {
    begun.push(value)
    await null
    if (value === 1) throw new Error('first')
  })
  await expect(work).rejects.toThrow('first')
  expect(begun).toEqual([1, 2])
})

test('of nothing comes nothing', async () => {
  expect(await mapAtMost([], 3, async () => 1)).toEqual([])
})
