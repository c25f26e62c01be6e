/** Notices through the whole gateway: a customer's calls on one side, a mail server on the other. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from '../../../test/acceptance/ask.ts'
import { directed, SETTINGS } from '../../../test/acceptance/catalog.ts'
import type { TestKey } from '../../../test/customer.ts'
import { mailNotices } from '../../../test/mailNotices.ts'
import { type MailServer, openMailServer } from '../../../test/mailServer.ts'
import { systemClock } from '../../infra/clock.ts'
import { DAY_MS } from '../../lib/time.ts'

/** Goes on as the wall's, on other days. */
let aheadMs = Date.UTC(2031, 4, 30, 12) - systemClock.now()
const clock = { ...systemClock, now: () => systemClock.now() + aheadMs }

let mails: MailServer
let settings: string
let gateway: AskedGateway
beforeAll(async () => {
  mails = await openMailServer()
  settings = `${SETTINGS}
low_balance_cents: 300
smtp: { host: 127.0.0.1, port: ${mails.port}, tls: none, from: billing@tollgate.test }
`
  gateway = await openAskedGateway({ settings, clock })
})
afterAll(async () => {
  await gateway.close()
  await mails.close()
})

/** As many tokens as can be believed of the prompt of `spend`. */
const PROMPT_CENTS = 20

/** A call of exactly so many cents: a token of the prompt and of the answer costs one each. */
const spend = (at: AskedGateway, key: TestKey, cents: number) =>
  at.ask({
    path: '/chat/completions',
    key,
    body: directed(`prompt_tokens=${PROMPT_CENTS} tokens=${cents - PROMPT_CENTS}`, {
      model: 'svc/dear',
      max_tokens: cents - PROMPT_CENTS,
    }),
  })

async function customer(address: string, cents: number): Promise<TestKey> {
  const key = await gateway.customer({ admin: true, cents })
  await mailNotices(gateway.database, key.organizationId, [address])
  return key
}

const to = (address: string) => mails.mails.filter((mail) => mail.to === address)

test('a limit that only notifies refuses nothing and is mailed once a day, by whichever of two gateways, restarts between', async () => {
  const key = await customer('limit@example.com', 100_000)
  const body = { monthly_limit_dollars: 900, daily_limit_dollars: 2, enforcement: 'notify_only' }
  await gateway.ask({ method: 'PUT', path: '/billing/spending-limit', key, body })
  let other = await openAskedGateway({ settings, clock, beside: gateway })
  const seen = mails.mails.length
  const answers = await Promise.all([gateway, other, gateway, other].map((at) => spend(at, key, 100)))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200])
  for (const at of [gateway, other, gateway, other]) expect((await spend(at, key, 100)).status).toBe(200)
  await mails.arrived(seen + 1)
  expect(to('limit@example.com')[0]?.text).toContain('has reached its daily spending limit')
  expect(to('limit@example.com')[0]?.text).toContain('Daily limit:          $2.00')
  await other.close()
  other = await openAskedGateway({ settings, clock, beside: gateway })
  expect((await spend(other, key, 100)).status).toBe(200)
  aheadMs += DAY_MS
  for (let call = 0; call < 4; call += 1) await spend(call % 2 === 0 ? other : gateway, key, 100)
  await mails.arrived(seen + 2)
  await other.close()
  const subjects = to('limit@example.com').map(({ text }) => /Spent in (\S+):/.exec(text)?.[1])
  expect(subjects).toEqual(['2031-05-30', '2031-05-31'])
})

test('a limit that refuses is mailed with the refusal, and a low balance as soon as a call meets it', async () => {
  const key = await customer('both@example.com', 1_000)
  const body = { monthly_limit_dollars: 8, enforcement: 'block_launch' }
  await gateway.ask({ method: 'PUT', path: '/billing/spending-limit', key, body })
  const seen = mails.mails.length
  expect((await spend(gateway, key, 750)).status).toBe(200)
  expect((await spend(gateway, key, 100)).status).toBe(402)
  await mails.arrived(seen + 2)
  const texts = to('both@example.com').map(({ text }) => text)
  expect(texts.filter((text) => text.includes('Balance:              $2.50'))).toHaveLength(1)
  expect(texts.filter((text) => text.includes('Spent in 2031-05:     $7.50'))).toHaveLength(1)
  expect((await spend(gateway, key, 100)).status).toBe(402)
  expect(to('both@example.com')).toHaveLength(2)
})

test.each([
  [
    'with accounts an admin',
    'accounts: {}\npublic_url: https://tollgate.test\n',
    '(PATCH /manage/v1/organization, "notify_addresses").',
  ],
  ['without them the operator', '', 'To change who gets it, ask your operator.'],
])('the mail says who changes its addresses: %s', async (name, more, says) => {
  const address = `${name.replaceAll(' ', '-')}@example.com`
  const key = await customer(address, 1_000)
  const seen = mails.mails.length
  const other = await openAskedGateway({ settings: settings + more, clock, beside: gateway })
  try {
    expect((await spend(other, key, 750)).status).toBe(200)
    expect((await spend(other, key, 300)).status).toBe(402)
    await mails.arrived(seen + 1)
  } finally {
    await other.close()
  }
  expect(to(address).map(({ text }) => text)).toEqual([expect.stringContaining(says)])
})
