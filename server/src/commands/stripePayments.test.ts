/** The operator's commands on payments with Stripe, while Stripe can't do a part. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runCommand } from '../../test/commandContext.ts'
import { useStripeRoom } from '../../test/payments/stripeRoom.ts'
import { STRIPE_KEY } from '../../test/stripeServer.ts'
import { loadConfig } from '../config/config.ts'
import { MINUTE_MS } from '../lib/time.ts'

const room = useStripeRoom()
const { organization, paid, cents } = room
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'stripe-payments-'))
})
afterAll(() => rm(folder, { recursive: true }))

async function tollgate(...argv: string[]) {
  const settings = `payments: { provider: stripe, secret_key_env: STRIPE_KEY, api_url: "${room.stripe.url}" }\n`
  await writeFile(join(folder, 'tollgate.yaml'), settings)
  const { database, clock } = room
  return runCommand(argv, { database, clock }, { loadConfig: (flags) => loadConfig(flags, { STRIPE_KEY }, folder) })
}

const BROKEN = { status: 500, json: { error: { type: 'api_error', message: 'secret words' } } }

test('the comparison posts all but a refund that Stripe can not give, says so, and ends with 1', async () => {
  const organizationId = await organization()
  const checkout = await paid(organizationId)
  const readable = room.stripe.refund(checkout, 300)
  const unreadable = room.stripe.refund(checkout, 500)
  room.stripe.onRequest = ({ path }) => (path === `/v1/refunds/${unreadable}` ? BROKEN : undefined)
  await room.clock.turn(MINUTE_MS)
  const ran = await tollgate('payments', 'reconcile')
  expect(ran.exitCode).toBe(1)
  expect(await cents(organizationId)).toBe(1_700)
  expect(ran.stdout).toContain('1 differed: 1 posted now, 0 left.\n')
  expect(ran.stdout).toContain("1 object of the payment provider can't be read now: run this again later.")
  expect(ran.stderr).toContain(unreadable)
  const again = await tollgate('payments', 'reconcile', '--json')
  expect([again.exitCode, JSON.parse(again.stdout)]).toMatchObject([
    1,
    {
      differences: 0,
      unreadable: 1,
      shown: [{ kind: 'unreadable', object: unreadable, posted: false, why: 'Stripe refused the request (500)' }],
    },
  ])
  room.stripe.onRequest = () => undefined
  expect(await tollgate('payments', 'reconcile')).toMatchObject({ exitCode: 0 })
  expect(await cents(organizationId)).toBe(1_200)
  expect(readable).not.toBe(unreadable)
})

test('a refund that Stripe does not take now is written down, as the command says, and made once', async () => {
  const organizationId = await organization()
  await paid(organizationId)
  const [payment] = await room.database.query<{ id: string }>('select id from payments')
  room.stripe.onRequest = ({ path }) => (path === '/v1/refunds' ? BROKEN : undefined)
  const failed = await tollgate('payments', 'refund', payment?.id ?? '')
  expect(failed.exitCode).toBe(1)
  expect(failed.stderr).toContain(`the refund of the payment ${payment?.id} is written down`)
  expect(failed.stderr).not.toContain('Nothing was charged')
  room.stripe.onRequest = () => undefined
  expect(await tollgate('payments', 'refund', payment?.id ?? '')).toMatchObject({ exitCode: 0 })
  expect(await cents(organizationId)).toBe(0)
  expect(room.stripe.all('refund')).toHaveLength(1)
})

test('a payment that was paid at another payment provider is not refunded at this one', async () => {
  await paid(await organization())
  const [payment] = await room.database.query<{ id: string }>(
    "update payments set provider = 'local' where state = 'paid' and refund_request is null and provider = 'stripe' returning id",
  )
  const asked: string[] = []
  room.stripe.onRequest = ({ path }) => void asked.push(path)
  const ran = await tollgate('payments', 'refund', payment?.id ?? '')
  expect(ran).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining('was paid at the payment provider "local"'),
  })
  room.stripe.onRequest = () => undefined
  expect(asked).toEqual([])
  expect(await room.database.query('select 1 from payments where refund_request is not null')).toEqual([])
})
