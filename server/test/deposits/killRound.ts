/** Rounds of payments while gateways with deposits are killed and come back (README.md). */

import { makeCustomer, type TestKey } from '../customer.ts'
import { openTestChain } from './anvil.ts'
import { checkCredits, checkRest, isAtRest, type KillBooks } from './killBooks.ts'
import { type KilledGateways, startKilledGateways } from './killedGateways.ts'
import { depositKillPlan, type KillOrder, type KillStep } from './killPlan.ts'
import { deployToken } from './token.ts'

const ETHEREUM = 1
const CREATE_TRIES = 100
const ANSWER_MS = 10_000
/** Questions to nodes that one look takes, about. */
const QUESTIONS_A_LOOK = 8
/** Looks and screenings of some seconds, on a machine that is busy with other things. */
const REST_MS = 25_000

export interface DepositKillResult {
  /** The faults that were found; empty when all is well. */
  readonly problems: readonly string[]
  /** Of all rounds so far. */
  readonly credits: number
  readonly kills: number
}

export interface DepositKillRunner {
  /** Where `isOver` says so, the rest of the plan is left out; what was sent is waited for all the same. */
  run(seed: number, isOver?: () => boolean): Promise<DepositKillResult>
  close(): Promise<void>
}

/** The words that run a seed again. */
export function depositReplayOf(seed: number): string {
  return `bun server/test/deposits/kills.ts --seeds 1 --from ${seed}`
}

/** Opens a chain and two gateways, which go on from round to round. */
export async function startDepositKillRunner(): Promise<DepositKillRunner> {
  const chain = await openTestChain(ETHEREUM)
  const tokens = { usdc: await deployToken(chain.url, 'USDC'), usdt: await deployToken(chain.url, 'USDT') }
  const gateways = await startKilledGateways(chain, tokens)
  const { database } = gateways.fresh
  const customers = [await makeCustomer(database, { cents: 0 }), await makeCustomer(database, { cents: 0 })]
  const world: World = { chain, tokens, database, gateways, customers }
  return {
    async run(seed, isOver = () => false) {
      const round: Round = { ...world, addresses: new Map(), problems: [] }
      for (const { step, thenQuestions } of depositKillPlan(seed).steps) {
        if (isOver()) break
        await take(round, step)
        await gateways.questions(thenQuestions)
      }
      if (!(await comeToRest(round))) round.problems.push('it did not come to rest')
      const { problems, credits } = await checkRest(world)
      return { problems: [...round.problems, ...problems], credits, kills: gateways.kills }
    },
    async close() {
      await gateways.close()
      await chain.close()
    },
  }
}

interface World extends KillBooks {
  readonly gateways: KilledGateways
  readonly customers: readonly TestKey[]
}

interface Round extends World {
  /** By the numbers of orders. */
  readonly addresses: Map<number, string>
  readonly problems: string[]
}

async function take(round: Round, step: KillStep): Promise<void> {
  const { chain, gateways, tokens, addresses } = round
  switch (step.kind) {
    case 'create':
      addresses.set(step.order.number, await createAt(round, step.gateway, step.order))
      return
    case 'pay': {
      const { asset, number } = step.order
      const token = tokens[step.isWrongToken === (asset === 'usdc') ? 'usdt' : 'usdc']
      await token.sendParts(addresses.get(number) ?? '', step.units)
      return
    }
    case 'mine':
      return chain.mine(step.blocks)
    case 'reorganize':
      return reorganize(round, step.blocks, step.isSentAgain)
    case 'away':
      return beAway(gateways, step.node)
    case 'abandon':
      return abandon(round, 'all')
    case 'kill':
      return gateways.arm(step.moment)
    case 'restart':
      await gateways.restart()
      round.problems.push(...(await checkCredits(round)))
  }
}

/** Asks one gateway after the other until a deposit is begun: one may be dead, and the chain away. */
async function createAt({ gateways, customers }: Round, first: number, order: KillOrder): Promise<string> {
  const { asset, amountCents, organization } = order
  const body = JSON.stringify({ amount_cents: amountCents, chain: 'ethereum', asset })
  const headers = { Authorization: `Bearer ${customers[organization]?.key}` }
  let last = 'nobody serves'
  for (let tries = 0; tries < CREATE_TRIES; tries += 1) {
    for (const url of gateways.urls(first)) {
      const signal = AbortSignal.timeout(ANSWER_MS)
      try {
        const answer = await fetch(`${url}/billing/deposits/crypto`, { method: 'POST', headers, body, signal })
        if (answer.status === 201) return ((await answer.json()) as { pay_address: string }).pay_address
        last = `${answer.status} ${await answer.text()}`
      } catch (error) {
        last = String(error)
      }
    }
    await gateways.questions(1)
  }
  throw new Error(`no deposit could be begun: ${last}`)
}

async function beAway(gateways: KilledGateways, node: number | 'hook'): Promise<void> {
  if (node === 'hook') gateways.isHookAway = true
  else gateways.setNode(node, false)
  await gateways.questions(QUESTIONS_A_LOOK)
  gateways.isHookAway = false
  if (node !== 'hook') gateways.setNode(node, true)
}

/** Takes blocks back. Their transactions may come again, in another block and behind another event. */
async function reorganize({ chain, tokens }: Round, blocks: number, isSentAgain: boolean): Promise<void> {
  const head = Number(await chain.ask<string>('eth_blockNumber'))
  const raws: string[] = []
  for (let number = head - blocks + 1; number <= head; number += 1) {
    const at = `0x${number.toString(16)}`
    const { transactions } = await chain.ask<{ transactions: string[] }>('eth_getBlockByNumber', at, false)
    for (const hash of transactions) raws.push(await chain.ask<string>('eth_getRawTransactionByHash', hash))
  }
  await chain.reorganize(blocks)
  if (!isSentAgain || raws.length === 0) return
  await tokens.usdc.goFirst()
  for (const raw of raws) await chain.ask('eth_sendRawTransaction', raw).catch(unlessKnown)
  await chain.mine(1)
}

/** The transaction that comes first is the same one as last time, where that was taken back too. */
function unlessKnown(error: unknown): void {
  if (!String(error).includes('already imported')) throw error
}

/** Has what is claimed, or waits, taken up at once. */
async function abandon({ database }: KillBooks, what: 'all' | 'held'): Promise<void> {
  await database.query('update deposit_chains set due_at = least(due_at, now())')
  await database.query(
    `update deposit_transfers set due_at = least(due_at, now())
     where due_at is not null and (state = 'held' or $1 = 'all')`,
    [what],
  )
}

/** Lets all that was sent become final, and everybody work until nothing is left to do. False: it takes too long. */
async function comeToRest(round: Round): Promise<boolean> {
  await round.gateways.allServe()
  await round.chain.mine(4)
  const giveUpAtMs = performance.now() + REST_MS
  // The dead had claimed some.
  await abandon(round, 'all')
  while (performance.now() < giveUpAtMs) {
    if (await isAtRest(round)) return true
    await round.gateways.questions(QUESTIONS_A_LOOK)
    await abandon(round, 'held')
  }
  return isAtRest(round)
}
