/** More transactions than a node lists at once, or than are held in memory for one answer. */

import { expect, test } from 'bun:test'
import { ChainFailure, type ChainTrouble } from '../chains/chain.ts'
import type { ChainNode } from '../chains/rpc.ts'
import { createTransactionGains } from './gains.ts'
import { createListingPlaces } from './places.ts'
import { readSolanaTransfers, type SolanaReading } from './transfers.ts'

const ACCOUNT = 'A'.repeat(43)
const MINT = 'B'.repeat(43)
const watched = { account: ACCOUNT, address: 'C'.repeat(43), token: MINT, asset: 'usdc' } as const

const ready = {
  fail: (trouble: ChainTrouble, what: string) => new ChainFailure(trouble, what),
  isPaused: () => false,
  pause: () => undefined,
  disagreed: () => undefined,
  noteFinal: () => undefined,
}

const signatureOf = (slot: number) => `${slot}`.replaceAll('0', 'z').padStart(80, 'x')

/** A node on which tokens came to the account by so many transactions, from slot 1 on. It counts its answers. */
function nodeWith(transactions: number, inSlot = 1, unitsOf: (index: number) => number = () => 1) {
  const asked = { pages: 0, transactions: 0 }
  const places = new Map(Array.from({ length: transactions }, (_, index) => [signatureOf(index), index]))
  const slotOf = (index: number) => Math.floor(index / inSlot) + 1
  const list = (before: string | undefined, limit: number) => {
    asked.pages += 1
    const behind = before === undefined ? transactions : (places.get(before) ?? 0)
    return Array.from({ length: Math.min(limit, behind) }, (_, index) => ({
      signature: signatureOf(behind - 1 - index),
      slot: slotOf(behind - 1 - index),
      err: null,
    }))
  }
  const node: ChainNode = {
    ...ready,
    async ask(method, parameters, shape) {
      if (method === 'getFirstAvailableBlock') return shape.parse(0)
      const [first, how] = parameters as [string, { before?: string; limit: number }]
      if (method === 'getSignaturesForAddress') return shape.parse(list(how.before, how.limit))
      asked.transactions += 1
      const index = places.get(first) ?? -1
      const slot = slotOf(index)
      const balance = { accountIndex: 1, mint: MINT, uiTokenAmount: { amount: `${index + unitsOf(index)}` } }
      const before = { ...balance, uiTokenAmount: { amount: `${index}` } }
      return shape.parse({
        slot,
        transaction: { signatures: [first], message: { accountKeys: ['D'.repeat(43), ACCOUNT] } },
        meta: { err: null, preTokenBalances: [before], postTokenBalances: [balance] },
      })
    },
  }
  return { node, asked }
}

/** Reads a node whose answers take so long each. */
function readingOf(node: ChainNode, answerMs = 0): SolanaReading {
  let nowMs = 0
  const slow: ChainNode = {
    ...node,
    ask(...question) {
      nowMs += answerMs
      return node.ask(...question)
    },
  }
  return {
    node: slow,
    clock: { monotonicMs: () => nowMs },
    gains: createTransactionGains([MINT]),
    places: createListingPlaces(),
  }
}

async function troubleOf(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => null,
    (error: unknown) => (error instanceof ChainFailure ? error.trouble : error),
  )
}

test('12,000 transactions are too many for one range; in shorter ones each is asked for once, in the order of the chain', async () => {
  const { node, asked } = nodeWith(12_000)
  const reading = readingOf(node)
  expect(await troubleOf(readSolanaTransfers(reading, [watched], { from: 0, to: 12_000 }))).toBe('too_many')
  expect(asked.transactions).toBe(0)
  const slots: number[] = []
  for (let from = 0; from <= 12_000; from += 4_000) {
    const transfers = await readSolanaTransfers(reading, [watched], { from, to: from + 3_999 })
    expect(transfers.every(({ units, ordinal }) => units === 1n && ordinal === 1)).toBe(true)
    // Those before the range are read again.
    slots.push(...transfers.map(({ block }) => block.number).filter((slot) => slot >= from))
  }
  expect(slots).toEqual(Array.from({ length: 12_000 }, (_, index) => index + 1))
  expect(asked.transactions).toBe(12_000)
})

test('one slot is never too many, nor are those that are read again', async () => {
  const { node } = nodeWith(20_000, 10_000)
  const transfers = await readSolanaTransfers(readingOf(node), [watched], { from: 2, to: 2 })
  expect(transfers.filter(({ block }) => block.number === 2)).toHaveLength(10_000)
  const again = transfers.filter(({ block }) => block.number === 1)
  expect(again).toHaveLength(2_000)
})

test('however many transactions there are before a range, it is not too long', async () => {
  const { node } = nodeWith(10_005, 10_000)
  const transfers = await readSolanaTransfers(readingOf(node), [watched], { from: 2, to: 3 })
  expect(transfers.filter(({ block }) => block.number === 2)).toHaveLength(5)
})

test('of the transfers in slots that are read again the largest are told', async () => {
  const { node } = nodeWith(4_000, 2_500, (index) => (index === 0 ? 7 : 1))
  const transfers = await readSolanaTransfers(readingOf(node), [watched], { from: 2, to: 2 })
  expect(transfers.filter(({ block, units }) => block.number === 1 && units === 7n)).toHaveLength(1)
})

test('a second look asks for no transaction that the first one has read, until it is to forget', async () => {
  const { node, asked } = nodeWith(100)
  const reading = readingOf(node)
  const first = await readSolanaTransfers(reading, [watched], { from: 0, to: 100 })
  expect(await readSolanaTransfers(reading, [watched], { from: 101, to: 101 })).toEqual(first)
  expect(asked.transactions).toBe(100)
  reading.gains.forget()
  expect(await readSolanaTransfers(reading, [watched], { from: 101, to: 101 })).toEqual(first)
  expect(asked.transactions).toBe(200)
})

test('a node that takes long over every answer is given up, and asked after the others', async () => {
  let pauses = 0
  const { node } = nodeWith(4_000)
  const pause = () => {
    pauses += 1
  }
  const pausing = { ...node, pause }
  const read = (answerMs: number) =>
    troubleOf(readSolanaTransfers(readingOf(pausing, answerMs), [watched], { from: 0, to: 4_000 }))
  expect(await read(50)).toBe(null)
  expect(pauses).toBe(0)
  expect(await read(2_000)).toBe('away')
  expect(pauses).toBeGreaterThan(0)
})

test('no more pages are asked for than reach back to the range', async () => {
  const { node, asked } = nodeWith(50_000)
  const transfers = await readSolanaTransfers(readingOf(node), [watched], { from: 49_900, to: 49_950 })
  expect(asked.pages).toBe(1)
  // With the 300 slots before, which are read again.
  expect(transfers).toHaveLength(351)
})

test('an account with more transactions than are listed is refused, and not taken for read', async () => {
  const endless: ChainNode = {
    ...ready,
    ask: async (method, _, shape) =>
      shape.parse(
        method === 'getFirstAvailableBlock'
          ? 0
          : Array.from({ length: 1_000 }, () => ({ signature: '2'.repeat(80), slot: 9_000, err: 'Failed' })),
      ),
  }
  const read = readSolanaTransfers(readingOf(endless), [watched], { from: 1, to: 8_000 })
  await expect(read).rejects.toMatchObject({ trouble: 'refused' })
})
