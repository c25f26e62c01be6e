/** The operator's commands on payments, with the local payment provider: refunds, disputes, freezes, the comparison. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { runCommand } from '../../test/commandContext.ts'
import { type FreshDatabase, freshDatabase } from '../../test/postgres.ts'
import { readBalance } from '../billing/admission/balance/balance.ts'
import { findOrganizationByName } from '../identity/organizations/find.ts'
import { createLog } from '../infra/log.ts'
import { systemRandom } from '../infra/random.ts'
import { uuidV7 } from '../lib/ids.ts'
import { MINUTE_MS } from '../lib/time.ts'
import { adoptAutoPayment } from '../payments/autoPay/adopt.ts'
import { createLocalProvider } from '../payments/local/provider.ts'
import { reconcileDue } from '../payments/reconcile/reconcile.ts'
import { customerOf } from '../payments/topUps/customer.ts'
import { refreshPayment } from '../payments/topUps/refresh.ts'
import { openTopUp } from '../payments/topUps/topUp.ts'

let fresh: FreshDatabase
const clock = new TurnedClock(Date.UTC(2031, 6, 2, 12))
const random = systemRandom()
const log = createLog('debug', { write: () => {} })
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

const tollgate = (...argv: string[]) => runCommand(argv, { database: fresh.database, clock })
async function json(...argv: string[]): Promise<Record<string, unknown>> {
  const ran = await tollgate(...argv, '--json')
  expect(ran).toMatchObject({ exitCode: 0, stderr: '' })
  return JSON.parse(ran.stdout)
}

const parts = () => {
  const { database } = fresh
  const provider = createLocalProvider({ database, clock, random, pageUrl: (path) => `https://t.test${path}` })
  return { database, clock, random, log, provider, plans: () => [] }
}

/** An organization of a name with a payment of $20. */
async function paid(name: string) {
  await tollgate('orgs', 'create', name)
  const found = await findOrganizationByName(fresh.database, name)
  const organizationId = found.ok ? found.value.id : ''
  const urls = {
    successUrl: 'https://t.test/done',
    cancelUrl: 'https://t.test/no',
    savesMethod: false,
    keep: async () => [],
  }
  const dependencies = parts()
  const { id, checkout } = await openTopUp(dependencies, { organizationId, amountCents: 2_000, ...urls })
  await dependencies.provider.choose(checkout ?? '', { kind: 'pay', card: 'succeeds', savesCard: false })
  await refreshPayment(dependencies, { id })
  const cents = async () => Number((await readBalance(fresh.database, organizationId)) / 1_000_000n)
  return { id, cents }
}

test('a payment is refunded in part and whole; the list and the credits show it', async () => {
  const { id, cents } = await paid('refunded')
  expect(await json('payments', 'refund', id, '--cents', '500')).toMatchObject({ payment: id, outcome: 'refunded' })
  expect(await cents()).toBe(1_500)
  expect((await tollgate('payments', 'refund', id, '--cents', '1501')).stderr).toContain('has $15.00 left')
  expect(await tollgate('payments', 'refund', id)).toMatchObject({ exitCode: 0, stderr: '' })
  expect(await cents()).toBe(0)
  const { payments } = (await json('payments', 'list', '--org', 'refunded')) as { payments: unknown[] }
  expect(payments).toMatchObject([{ id, amount_usd: '20.00', reversed_usd: '20.00', state: 'paid' }])
  const credits = (await json('credits', 'list', '--org', 'refunded')) as unknown as { kind: string }[]
  expect(credits.map(({ kind }) => kind).toSorted()).toEqual(['credit', 'payment_refund', 'payment_refund'])
})

test('the list of payments fits a terminal of 80 columns, and says of each what became of it', async () => {
  const name = 'an organization with a long name'
  const { id } = await paid(name)
  await json('payments', 'refund', id, '--cents', '500')
  await fresh.database.query(
    `insert into payments (id, organization_id, provider, kind, amount_cents, state, reason, created_at)
     select $1::uuid, organization_id, provider, 'auto_pay', 99999999, 'failed', $2, created_at from payments where id = $3::uuid`,
    [uuidV7(clock.now() + 1, random), 'The saved card was declined.', id],
  )
  const own = (await tollgate('payments', 'list', '--org', name)).stdout
  const all = (await tollgate('payments', 'list')).stdout
  for (const line of [...own.split('\n'), ...all.split('\n')]) expect(line.length).toBeLessThanOrEqual(80)
  const [heading, failed] = own.split('\n')
  expect(heading).toMatch(/^CREATED +ID +USD +STATE$/)
  expect(failed).toContain(' 999999.99 ')
  expect(all.split('\n')[0]).toMatch(/^CREATED +ID +ORGANIZ/)
  const words = own.replaceAll(/\s+/g, ' ')
  expect(words).toContain(`${id} 20.00 paid, 5.00`)
  expect(all).toContain(id)
  const opened = { database: fresh.database, clock }
  const piped = await runCommand(['payments', 'list'], opened, { stdoutColumns: Number.POSITIVE_INFINITY })
  expect(piped.stdout).toMatch(
    /^2031-07-02 12:0\d {2}[0-9a-f-]{36} .* failed by auto-pay: The saved card was declined\.$/m,
  )
})

test('at a terminal the comparison shows how far it is, and its result stands alone', async () => {
  await paid('progress')
  await clock.turn(MINUTE_MS)
  const seen = await runCommand(
    ['payments', 'reconcile', '--since', '30d'],
    { database: fresh.database, clock },
    { stderrIsTerminal: true },
  )
  expect(seen.stderr).toContain(' compared')
  expect(seen.stderr).toEndWith('\r\u001b[K')
  expect((await tollgate('payments', 'reconcile', '--since', '30d')).stderr).toBe('')
})

test.each([
  [['payments', 'refund', 'x'], 1, 'there is no paid payment x'],
  [['payments', 'refund', 'x', '--cents', '0'], 2, 'is not an amount'],
  [['payments', 'simulate', 'x', '--event', 'dispute'], 1, 'there is no paid payment x'],
  [['payments', 'simulate', 'x', '--event', 'rain'], 2, 'is not known'],
  [['payments', 'reconcile', '--since', 'soon'], 2, 'is not understood'],
  [['orgs', 'freeze', 'x', '--reason', 'rain'], 2, 'is not known'],
  [['orgs', 'freeze', 'nobody', '--reason', 'operator'], 1, 'There is no organization named'],
])('%j ends with %i', async (argv, exitCode, says) => {
  const ran = await tollgate(...argv)
  expect(ran.exitCode).toBe(exitCode)
  expect(ran.stderr).toContain(says)
})

test('in test mode a payment is disputed, lost and won; each is marked as test mode', async () => {
  const { id, cents } = await paid('disputed')
  const simulate = (event: string) => tollgate('payments', 'simulate', id, '--event', event)
  expect((await simulate('inquiry')).stdout).toContain('Test mode, no real money')
  expect(await cents()).toBe(2_000)
  await simulate('won')
  await simulate('dispute')
  expect(await cents()).toBe(0)
  expect((await tollgate('orgs', 'show', 'disputed')).stdout).toContain("dispute: it can't pay")
  await simulate('lost')
  expect((await simulate('won')).stderr).toContain("can't happen to the payment")
  await tollgate('orgs', 'unfreeze', 'disputed', '--reason', 'dispute')
  await simulate('dispute')
  await simulate('won')
  expect(await cents()).toBe(0)
  expect(await json('orgs', 'show', 'disputed')).toMatchObject({ frozen: null })
  const other = await paid('refund fails')
  await tollgate('payments', 'simulate', other.id, '--event', 'refund', '--cents', '300')
  expect(await other.cents()).toBe(1_700)
  await tollgate('payments', 'simulate', other.id, '--event', 'refund-fails')
  expect(await other.cents()).toBe(2_000)
})

/** An organization of a name with a payment of $20 that auto-pay has made. */
async function paidByCard(name: string) {
  await tollgate('orgs', 'create', name)
  const found = await findOrganizationByName(fresh.database, name)
  const organizationId = found.ok ? found.value.id : ''
  const dependencies = parts()
  const wanted = {
    paymentId: uuidV7(clock.now(), random),
    customer: await customerOf(dependencies, organizationId),
    method: 'succeeds',
    amountCents: 2_000,
    description: 'Credit',
    createdAtMs: clock.now(),
  }
  const made = await dependencies.provider.payOffSession(wanted)
  await adoptAutoPayment(dependencies, organizationId, { ...wanted, kind: 'auto_pay', facts: made }, clock.now())
  const cents = async () => Number((await readBalance(fresh.database, organizationId)) / 1_000_000n)
  return { id: wanted.paymentId, cents }
}

test('a payment by auto-pay is refunded and disputed in test mode like any other', async () => {
  const { id, cents } = await paidByCard('by card')
  expect(await cents()).toBe(2_000)
  expect(await json('payments', 'refund', id, '--cents', '500')).toMatchObject({ payment: id, outcome: 'refunded' })
  expect(await cents()).toBe(1_500)
  const simulate = (event: string) => tollgate('payments', 'simulate', id, '--event', event)
  expect((await simulate('dispute')).exitCode).toBe(0)
  expect(await cents()).toBe(0)
  expect((await tollgate('orgs', 'show', 'by card')).stdout).toContain("dispute: it can't pay")
  expect((await simulate('won')).exitCode).toBe(0)
  expect(await cents()).toBe(1_500)
  expect((await simulate('refund')).exitCode).toBe(0)
  expect(await cents()).toBe(0)
})

test('what nobody tells of is found by the server, and by the command', async () => {
  const { id, cents } = await paid('untold')
  const dependencies = parts()
  await reconcileDue(dependencies, clock.now(), () => false)
  await clock.turn(MINUTE_MS)
  await tollgate('payments', 'simulate', id, '--event', 'refund', '--cents', '100', '--untold')
  expect(await cents()).toBe(2_000)
  await clock.turn(10 * MINUTE_MS)
  await reconcileDue(dependencies, 0, () => false)
  expect(await cents()).toBe(1_900)
  await tollgate('payments', 'simulate', id, '--event', 'refund', '--cents', '200', '--untold')
  await clock.turn(MINUTE_MS)
  expect(await json('payments', 'reconcile')).toMatchObject({ differences: 1, posted: 1, left: 0 })
  expect(await cents()).toBe(1_700)
  expect(await json('payments', 'reconcile', '--since', '30d')).toMatchObject({ differences: 0 })
})

test('a payment that the payment provider does not have is printed, and the command ends with 1', async () => {
  const { id } = await paid('gone')
  await fresh.database.query(`delete from local_payment_objects where body ->> 'id' = $1`, [id])
  await clock.turn(MINUTE_MS)
  const ran = await tollgate('payments', 'reconcile', '--since', '1d')
  expect(ran.exitCode).toBe(1)
  expect(ran.stdout).toContain('not listed')
  for (const line of ran.stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80)
})

test('an organization is frozen for each of several reasons, until none is left', async () => {
  await tollgate('orgs', 'create', 'cold')
  await json('orgs', 'freeze', 'cold', '--reason', 'operator', '--note', 'ticket 812')
  await json('orgs', 'freeze', 'cold', '--reason', 'operator', '--note', 'again')
  const frozen = await json('orgs', 'freeze', 'cold', '--reason', 'screening')
  expect(frozen).toMatchObject({
    frozen: true,
    freezes: [
      { reason: 'operator', note: 'ticket 812' },
      { reason: 'screening', note: null },
    ],
  })
  expect((await tollgate('orgs', 'unfreeze', 'cold', '--reason', 'operator')).stdout).toContain(
    'still frozen: screening',
  )
  expect((await tollgate('orgs', 'unfreeze', 'cold', '--reason', 'operator')).stderr).toContain('is not frozen for')
  expect(await json('orgs', 'unfreeze', 'cold', '--reason', 'screening')).toMatchObject({ frozen: false })
})

test('where organizations pay at another payment provider and no settings file is found, nothing is compared', async () => {
  await json('orgs', 'create', 'elsewhere')
  const elsewhere = 'organization_id = (select id from organizations where name = $1)'
  await fresh.database.query(
    `insert into payment_customers (organization_id, provider, customer, created_at)
     select id, 'stripe', 'cus_1', now() from organizations where name = $1`,
    ['elsewhere'],
  )
  const { exitCode, stdout, stderr } = await tollgate('payments', 'reconcile')
  expect([exitCode, stdout]).toEqual([1, ''])
  expect(stderr).toMatch(
    /there is no settings file .*: name the one of your server with --config or TOLLGATE_CONFIG\n$/,
  )
  await fresh.database.query(`delete from payment_customers where ${elsewhere}`, ['elsewhere'])
  expect(await tollgate('payments', 'reconcile')).toMatchObject({ exitCode: 0 })
})
