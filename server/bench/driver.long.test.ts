import { expect, test } from 'bun:test'
import { checkStallIsSeen } from './selfCheck.ts'
import { withSession } from './session.ts'

test('a stall of two seconds shows in p99.9 of the open-loop driver', async () => {
  await withSession(60, false, async ({ processes, folder }) => {
    const report = await checkStallIsSeen(processes, folder)
    expect(report.p999Ms).toBeGreaterThan(1_900)
    expect(report.seen).toBe(true)
  })
}, 90_000)
