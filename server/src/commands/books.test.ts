import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type Books, openBooks } from '../../test/books.ts'
import { TurnedClock } from '../../test/clock.ts'
import { runCommand } from '../../test/commandContext.ts'
import { readBalance } from '../billing/admission/balance/balance.ts'
import { printUsd } from '../lib/usd.ts'

const clock = new TurnedClock(Date.UTC(2030, 0, 1))
let books: Books
let organization: string
beforeAll(async () => {
  books = await openBooks(clock)
  organization = await books.organization(10n ** 12n)
}, 60_000)
afterAll(() => books.drop())

const tollgate = (...argv: string[]) =>
  runCommand(argv, { database: books.database, clock }, { stdoutIsTerminal: true })

test('a charge is refunded by the id of its answer, once, exactly', async () => {
  const { chargeId, costMicrocents } = await books.post(organization, clock.now())
  const answerId = `chatcmpl-${chargeId.replaceAll('-', '')}`
  const made = await tollgate('refunds', 'create', '--charge', answerId, '--note', 'sorry', '--json')
  expect(JSON.parse(made.stdout)).toEqual({
    charge: chargeId,
    organization_id: organization,
    amount_usd: printUsd(costMicrocents),
    source: `refund:${chargeId}`,
    note: 'sorry',
  })
  expect(await readBalance(books.database, organization)).toBe(10n ** 12n)
  const again = await tollgate('refunds', 'create', '--charge', chargeId)
  expect(again).toMatchObject({ exitCode: 1, stdout: '' })
  expect(again.stderr).toContain('was refunded before')
})

test('cents are refunded of what cost as much, and not of what cost less', async () => {
  const { chargeId } = await books.post(organization, clock.now(), { costMicrocents: 2_500_000n })
  const more = await tollgate('refunds', 'create', '--charge', chargeId, '--cents', '3')
  expect(more.stderr).toContain('was $0.025: refund at most that')
  const part = await tollgate('refunds', 'create', '--charge', chargeId, '--cents', '2')
  expect(part).toMatchObject({
    exitCode: 0,
    stdout: `Refunded $0.02 of the charge ${chargeId} (refund:${chargeId}).\n`,
  })
})

test('a balance is adjusted up and down', async () => {
  const before = await readBalance(books.database, organization)
  const adjust = (usd: string) =>
    tollgate('adjustments', 'create', '--org', 'organization 1', '--usd', usd, '--note', 'x')
  expect((await adjust('-5.00')).stdout).toContain('by $-5.00 (adjustment:')
  expect(await readBalance(books.database, organization)).toBe(before - 500_000_000n)
  expect((await adjust('5')).exitCode).toBe(0)
  expect(await readBalance(books.database, organization)).toBe(before)
})

test('books that agree are called so; what disagrees is named, and the exit code is 1', async () => {
  await books.database.query(
    'truncate charges, usage_hours, usage_days, account_shares, unfolded_spend, ledger_entries',
  )
  await books.database.query('update accounts set balance_microcents = 0, shares_microcents = 0')
  expect(await tollgate('ledger', 'verify')).toEqual({
    exitCode: 0,
    stdout: 'The books agree: every balance, charge, rollup, share and meter of a plan.\n',
    stderr: '',
  })
  await books.database.query('update accounts set balance_microcents = 1')
  const found = await tollgate('ledger', 'verify')
  expect(found).toEqual({
    exitCode: 1,
    stdout:
      `organization ${organization}: the ledger less all charges comes to 0 micro-cents, the account keeps 1\n` +
      'The books disagree in 1 place.\n',
    stderr: '',
  })
  const json = await tollgate('ledger', 'verify', '--json')
  expect(json.exitCode).toBe(1)
  expect(JSON.parse(json.stdout)).toMatchObject({
    agrees: false,
    disagreements: 1,
    shown: [{ kind: 'balance', organizationId: organization, booked: '0', kept: '1' }],
  })
})

test.each([
  [['refunds', 'create', '--charge', 'nonsense'], '--charge "nonsense" is not the id of a charge', 2],
  [['refunds', 'create', '--charge', '00000000-0000-7000-8000-000000000000', '--cents', '0'], 'is not an amount', 2],
  [['refunds', 'create', '--charge', '00000000-0000-7000-8000-000000000000', '--cents', '1.5'], 'is not an amount', 2],
  [['refunds', 'create', '--charge', '00000000-0000-7000-8000-000000000000'], 'there is no charge', 1],
  [['adjustments', 'create', '--org', 'organization 1', '--usd', '-5'], '--note TEXT is missing', 2],
  [['adjustments', 'create', '--org', 'organization 1', '--usd', '0', '--note', 'x'], 'is not an amount', 2],
  [['adjustments', 'create', '--org', 'nobody', '--usd', '1', '--note', 'x'], 'no organization named "nobody"', 1],
] as const)('%j is refused', async (argv, sentence, exitCode) => {
  const refused = await tollgate(...argv)
  expect(refused).toMatchObject({ exitCode, stdout: '' })
  expect(refused.stderr).toContain(sentence)
})
