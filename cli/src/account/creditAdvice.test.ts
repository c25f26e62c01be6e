import { expect, test } from 'bun:test'
import { testSystem } from '../../test/testSystem.ts'
import { runLine } from '../run.ts'

const UNPAID = {
  error: { code: 'insufficient_balance', message: 'The credit balance does not cover this request. Add credit.' },
}
const CAPPED = { error: { code: 'quota_exceeded', message: 'A limit is reached.' } }

test.each([
  ['write', 200, UNPAID, true],
  ['read', 200, UNPAID, false],
  // A server without payments.
  ['write', 404, UNPAID, false],
  ['write', 200, CAPPED, false],
])('a key with billing %s, payments %d: %j', async (billing, payments, refused, isAdvised) => {
  const { system, printed } = testSystem({
    fetch: async (url) => {
      if (url.endsWith('/manage/v1/key')) return Response.json({ levels: { billing } })
      if (url.includes('/manage/v1/payments')) return Response.json({ data: [] }, { status: payments })
      return Response.json(refused, { status: 402 })
    },
  })
  expect(
    await runLine(['image', 'x', '--model', 'svc/m', '--output', 'x.png'], { ...system, checkFiles: async () => {} }),
  ).toBe(1)
  expect(printed.said).toContain(refused.error.message)
  expect(printed.said.includes('"tollgate topup 20" adds $20 of credit.')).toBe(isAdvised)
})
