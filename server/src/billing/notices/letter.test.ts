import { expect, test } from 'bun:test'
import { writeLetter } from './letter.ts'
import type { Notice } from './notice.ts'

const NOTICE: Notice = {
  organizationId: '00000000-0000-4000-8000-000000000001',
  organizationName: 'Acme',
  kind: 'monthly',
  periodMs: Date.UTC(2030, 4, 1),
  amountMicrocents: 50_004_000_000n,
  limitMicrocents: 50_000_000_000n,
  enforcement: 'block_launch',
  noticedAtMs: Date.UTC(2030, 4, 17, 9, 3, 59),
  instanceId: null,
  link: null,
}

test('a letter says what happened, the figures, what it means and what to do', () => {
  expect(writeLetter(NOTICE, false)).toEqual({
    subject: '"Acme": the monthly spending limit is reached',
    text: `Hello,

"Acme" has reached its monthly spending limit.

  Spent in 2030-05:     $500.04
  Monthly limit:        $500.00
  Seen:                 2030-05-17 09:03 UTC

Calls that would pass the limit are refused with 402 quota_exceeded; calls that
were running go on. There is room again when the next month begins, at 00:00 UTC.

What to do: nothing, if this was expected. To go on at once, raise the limit
(PUT /v1/billing/spending-limit, with the key of an admin).

You get this mail because your address is set for notices of this organization.
To change who gets it, ask your operator.
`,
  })
})

test.each([
  [{ kind: 'daily', enforcement: 'stop_running' }, 'Running answers are cut'],
  [{ kind: 'daily', enforcement: 'notify_only' }, 'nothing is refused, and spending goes on'],
  [{ kind: 'new_account' }, 'make a first payment'],
  [{ kind: 'low_balance', amountMicrocents: 123_999_999n }, 'Balance:              $1.23'],
  [{ kind: 'low_balance', amountMicrocents: -1n }, 'Balance:              -$0.01'],
  [{ kind: 'auto_pay_off' }, 'make a payment with a card that works'],
  [{ kind: 'auto_pay_off', link: 'https://pay.test/c/1' }, 'pay here, within 24 hours:\nhttps://pay.test/c/1\n'],
  [{ kind: 'auto_pay_authentication', link: 'https://pay.test/c/1' }, 'The bank asks the person who has the card'],
] as const)('case %#', (change, words) => {
  const { text } = writeLetter({ ...NOTICE, ...change }, true)
  expect(text).toContain(words)
  for (const line of text.split('\n')) expect(line.length).toBeLessThanOrEqual(84)
})
