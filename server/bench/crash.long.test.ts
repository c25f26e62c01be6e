import { expect, test } from 'bun:test'
import { checkLossIsSeen } from './crashCheck.ts'
import { withSession } from './session.ts'

test('the crash comparison sees charges that a kill loses, and none where each is written before its answer', async () => {
  await withSession(120, false, async ({ processes, folder }) => {
    const report = await checkLossIsSeen(processes, folder)
    expect(report, report.detail).toHaveProperty('seen', true)
  })
}, 150_000)
