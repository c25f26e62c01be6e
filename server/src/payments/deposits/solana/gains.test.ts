/** The gains of a transaction, as a node tells them: also by a node that tells far more than a transaction can hold. */

import { expect, test } from 'bun:test'
import { createTransactionGains } from './gains.ts'
import { transaction } from './shapes.ts'

const MINT = 'B'.repeat(43)
const SIGNATURE = 'x'.repeat(80)
const keyOf = (index: number) => `${index}`.replaceAll('0', 'z').padStart(43, 'K')

/** Of a token account: its place, its owner, and what is in it. */
type Balance = readonly [place: number, owner: string | null, amount: number, mint?: string]

const balancesOf = (balances: readonly Balance[]) =>
  balances.map(([accountIndex, owner, amount, mint = MINT]) => ({
    accountIndex,
    mint,
    owner,
    uiTokenAmount: { amount: `${amount}` },
  }))

function told(before: readonly Balance[], after: readonly Balance[]) {
  return {
    slot: 1,
    transaction: {
      signatures: [SIGNATURE],
      message: { accountKeys: Array.from({ length: 10 }, (_, index) => keyOf(index)) },
    },
    meta: { err: null, preTokenBalances: balancesOf(before), postTokenBalances: balancesOf(after) },
  }
}

async function gainsOf(before: readonly Balance[], after: readonly Balance[]) {
  const node = {
    pause: () => undefined,
    fail: () => {
      throw new Error('the transaction was refused')
    },
    ask: async <T>(_: string, __: readonly unknown[], shape: { parse(value: unknown): T }) =>
      shape.parse(told(before, after)),
  }
  const listed = [{ signature: SIGNATURE, slot: 1 }]
  const [read] = await createTransactionGains([MINT]).read(node, listed)
  return read?.gains ?? []
}

const [BAD, CLEAN, PAID] = [keyOf(91), keyOf(92), keyOf(93)]

test('every owner that tokens were taken from is a sender, of most first: nobody hides behind a larger move beside theirs', async () => {
  const before: Balance[] = [
    [1, BAD, 5],
    [2, CLEAN, 1_000],
    [3, CLEAN, 0],
    [4, PAID, 0],
  ]
  const after: Balance[] = [
    [1, BAD, 0],
    [2, CLEAN, 0],
    [3, CLEAN, 1_000],
    [4, PAID, 5],
  ]
  const gain = (await gainsOf(before, after)).find(({ owner }) => owner === PAID)
  expect(gain).toMatchObject({ units: 5n, ordinal: 4, senders: [CLEAN, BAD] })
})

test('an owner that the node does not tell has its account named; where nothing was taken whoever paid the fee', async () => {
  expect(await gainsOf([[1, null, 7]], [[2, PAID, 7]])).toMatchObject([{ senders: [keyOf(1)] }])
  expect(await gainsOf([], [[2, PAID, 7]])).toMatchObject([{ senders: [keyOf(0)] }])
})

test('what an account had of another token does not count as had', async () => {
  expect(await gainsOf([[2, PAID, 5, keyOf(99)]], [[2, PAID, 7]])).toMatchObject([{ units: 7n }])
})

test('a transaction with more balances than it has accounts, or with two of one account, is refused', () => {
  const isRead = (before: readonly Balance[], after: readonly Balance[]) =>
    transaction.safeParse(told(before, after)).success
  const flood = Array.from({ length: 257 }, (): Balance => [1, BAD, 1])
  expect(isRead([[1, BAD, 1]], [[2, PAID, 1]])).toBe(true)
  expect(isRead(flood, [])).toBe(false)
  expect(isRead([], flood)).toBe(false)
  expect(isRead([[1, BAD, 1]], [flood[0] ?? [1, BAD, 1], [1, BAD, 1]])).toBe(false)
})
