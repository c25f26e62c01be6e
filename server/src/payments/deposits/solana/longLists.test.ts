/** Floods of transactions that name one token account: they are listed once, and no look stands still for them. */

import { expect, test } from 'bun:test'
import { ChainFailure, type ChainTrouble } from '../chains/chain.ts'
import type { AskBounds } from '../chains/rpc.ts'
import { listTransactions } from './listing.ts'
import { createListingPlaces } from './places.ts'
import { signatures } from './shapes.ts'

const ACCOUNT = 'A'.repeat(43)

const signatureOf = (index: number) => `${index}`.replaceAll('0', 'z').padStart(80, 'x')

interface Question {
  readonly limit: number
  readonly before?: string
}

/** A node that lists so many transactions of the account, some in each slot, from slot 1 on. */
function nodeWith(transactions: number, over: { readonly inSlot?: number; readonly err?: object | null } = {}) {
  const { inSlot = 1, err = null } = over
  const places = new Map(Array.from({ length: transactions }, (_, index) => [signatureOf(index), index]))
  const node = {
    pages: 0,
    bounds: [] as (AskBounds | undefined)[],
    /** In place of a list. */
    instead: (_: Question): ChainTrouble | 'none' | null => null,
    pauses: 0,
    pause() {
      node.pauses += 1
    },
    fail: (trouble: ChainTrouble, what: string) => new ChainFailure(trouble, what),
    async ask<T>(_: string, parameters: readonly unknown[], shape: { parse(value: unknown): T }, bounds?: AskBounds) {
      node.pages += 1
      node.bounds.push(bounds)
      const question = parameters[1] as Question
      const instead = node.instead(question)
      if (instead === 'none') return shape.parse([])
      if (instead !== null) throw new ChainFailure(instead, 'instead')
      const behind = question.before === undefined ? transactions : (places.get(question.before) ?? 0)
      return shape.parse(
        Array.from({ length: Math.min(question.limit, behind) }, (__, index) => ({
          signature: signatureOf(behind - 1 - index),
          slot: Math.floor((behind - 1 - index) / inSlot) + 1,
          err,
        })),
      )
    },
  }
  return node
}

type FakeNode = ReturnType<typeof nodeWith>

const again = (from: number) => Math.max(from - 300, 0)

function listerOf(node: FakeNode) {
  const places = createListingPlaces()
  return (from: number, to: number) => listTransactions({ node, places }, [ACCOUNT], { from, to }, again(from))
}

/** Reads all slots in steps, halved where they are too long, as a look does. Returns how many transactions were listed in them. */
async function readAll(node: FakeNode, toSlot: number): Promise<number> {
  const list = listerOf(node)
  let [cursor, blocks, found] = [0, 1_000_000, 0]
  while (cursor < toSlot) {
    const to = Math.min(cursor + blocks, toSlot)
    try {
      const listed = await list(cursor + 1, to)
      found += listed.filter(({ slot }) => slot > cursor).length
      cursor = to
      blocks *= 2
    } catch (error) {
      if (!(error instanceof ChainFailure) || error.trouble !== 'too_many') throw error
      blocks = Math.ceil((to - cursor) / 2)
    }
  }
  return found
}

test('a flood of 60,000 transactions is read in steps that do not begin with the newest one again', async () => {
  const node = nodeWith(60_000)
  expect(await readAll(node, 60_000)).toBe(60_000)
  // 60 lists have all; a step that is too long is given up after 6, and each step begins up to a list before its range.
  expect(node.pages).toBeLessThan(300)
})

test('a flood of transactions that failed is read in steps too', async () => {
  const node = nodeWith(60_000, { err: { InstructionError: [0, 'Custom'] } })
  await expect(listerOf(node)(1, 60_000)).rejects.toMatchObject({ trouble: 'too_many' })
  expect(node.pages).toBeLessThan(25)
  expect(await readAll(node, 60_000)).toBe(0)
})

test('a flood in the slots before a range is not read to its end with each look', async () => {
  const node = nodeWith(150_001, { inSlot: 1_000 })
  const listed = await listerOf(node)(151, 151)
  expect(listed.filter(({ slot }) => slot === 151)).toHaveLength(1)
  expect(listed).toHaveLength(5_001)
  expect(node.pages).toBeLessThan(15)
})

test.each<'none' | 'refused'>(['none', 'refused'])(
  'where a node does not know the place any more (%s) its list is read from the beginning, and nothing is passed over',
  async (instead) => {
    const node = nodeWith(20_000)
    const list = listerOf(node)
    await expect(list(1, 20_000)).rejects.toMatchObject({ trouble: 'too_many' })
    node.pages = 0
    node.instead = () => (node.pages === 1 ? instead : null)
    expect(await list(1, 1_000)).toHaveLength(1_000)
    // The answer of no use, 20 whole lists, and one that has nothing more.
    expect(node.pages).toBe(22)
  },
)

test('what a place was remembered for is listed though more came meanwhile', async () => {
  const places = createListingPlaces()
  places.note(ACCOUNT, { signature: 'late', slot: 900 })
  places.note(ACCOUNT, { signature: 'early', slot: 500 })
  expect(places.behind(ACCOUNT, 499)).toBe('early')
  // Others of the slot of a place may stand before it.
  expect(places.behind(ACCOUNT, 500)).toBe('late')
  expect(places.behind(ACCOUNT, 900)).toBeUndefined()
  places.dropBefore(ACCOUNT, 600)
  expect(places.behind(ACCOUNT, 499)).toBe('late')
})

test('however many places there are, a bounded number is remembered', () => {
  const places = createListingPlaces()
  for (let account = 0; account < 30; account += 1)
    for (let slot = 1; slot <= 1_000; slot += 1) places.note(`${account}`, { signature: `${account} ${slot}`, slot })
  const kept = Array.from({ length: 30 }, (_, account) => places.behind(`${account}`, 0) !== undefined)
  expect(kept.filter(Boolean).length).toBeLessThanOrEqual(10)
  expect(kept.at(-1)).toBe(true)
})

test('a list that notes in its transactions make too large is asked for in shorter ones', async () => {
  const node = nodeWith(2_000)
  node.instead = ({ limit }) => (limit > 250 ? 'too_large' : null)
  expect(await listerOf(node)(1, 2_000)).toHaveLength(2_000)
  expect(node.bounds.every((bounds) => (bounds?.bytesMost ?? 0) <= 1024 * 1024)).toBe(true)
})

test('a node whose list is too large however short it is asked for is asked after the others', async () => {
  const node = nodeWith(2_000)
  node.instead = () => 'too_large'
  await expect(listerOf(node)(1, 2_000)).rejects.toMatchObject({ trouble: 'too_large' })
  expect(node.pages).toBeLessThan(15)
  expect(node.pauses).toBe(1)
})

test('a list with more rows than a node may be asked for is refused', () => {
  const rows = (count: number) =>
    Array.from({ length: count }, () => ({ signature: signatureOf(1), slot: 1, err: null }))
  expect(signatures.safeParse(rows(1_000)).success).toBe(true)
  expect(signatures.safeParse(rows(1_001)).success).toBe(false)
})
