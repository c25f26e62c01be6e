/** Deposits for generated requests: a chain in memory that goes on, and some deposits that were paid. */

import type { TestKey } from '../customer.ts'
import { TEST_XPUB } from '../deposits/depositHouse.ts'
import { FakeEvmNode } from '../deposits/fakeEvmNodes.ts'

export interface DepositSeeds {
  readonly ids: readonly string[]
  /** Chains of the settings, each with an asset that it has. */
  readonly pairs: readonly (readonly [chain: string, asset: string])[]
}

/** Nodes of the chains on which deposits may come. */
export interface FuzzedChains {
  /** The section of the settings. */
  readonly settings: string
  /** Has tokens come to an address on `base`. */
  pay(address: string, units: bigint): void
  close(): void
}

const CHAINS = [
  ['base', 8_453],
  ['ethereum', 1],
] as const
const PAIRS = [
  ['base', 'usdc'],
  ['ethereum', 'usdc'],
  ['ethereum', 'usdt'],
] as const
const BASE_USDC = '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913'
/** Begun, paid whole, and paid in part. */
const PAID_UNITS = [0n, 5_000_000n, 2_000_000n]

/** Opens a node for each of the chains. Each question after the final block moves it by one. */
export function openFuzzedChains(): FuzzedChains {
  const chains = CHAINS.map(([chain, chainId]) => {
    const node = new FakeEvmNode()
    node.chainId = chainId
    const server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      async fetch(request) {
        const question = (await request.json()) as { method: string; params: unknown[] }
        if (question.params[0] === 'finalized') node.finalBlock += 1
        node.headBlock = node.finalBlock + 10
        return Response.json({ jsonrpc: '2.0', id: 1, result: node.answer(question) })
      },
    })
    return { chain, node, server }
  })
  const lines = chains.map(
    ({ chain, server }) => `    ${chain}: { rpc_urls: ["http://127.0.0.1:${server.port}"], poll_seconds: 1 }`,
  )
  return {
    settings: `
deposits:
  xpub: ${TEST_XPUB}
  min_deposit_cents: 500
  open_deposits: 1000
  deposits_per_day: 100000
  chains:
${lines.join('\n')}
`,
    pay(address, units) {
      const node = chains[0]?.node
      if (node === undefined) return
      const block = node.headBlock + 1
      node.events = [...node.events, { block, to: address.toLowerCase(), units, contract: BASE_USDC }]
    },
    close: () => {
      for (const { server } of chains) server.stop(true)
    },
  }
}

/** Begins some deposits, and waits until those that are paid are credited. */
export async function makeDeposits(url: string, { key }: TestKey, chains: FuzzedChains): Promise<DepositSeeds> {
  const path = `${url}/billing/deposits`
  const headers = { Authorization: `Bearer ${key}` }
  const begin = async (chain: string, asset: string): Promise<{ deposit_id: string; pay_address: string }> => {
    for (;;) {
      const body = JSON.stringify({ amount_cents: 500, chain, asset })
      const answer = await fetch(`${path}/crypto`, { method: 'POST', headers, body })
      if (answer.ok) return (await answer.json()) as { deposit_id: string; pay_address: string }
      // The first look at the chain has not ended.
      if (answer.status !== 503) throw new Error(await answer.text())
    }
  }
  for (const [chain, asset] of PAIRS) await begin(chain, asset)
  const ids: string[] = []
  for (const units of PAID_UNITS) {
    const { deposit_id: id, pay_address: address } = await begin('base', 'usdc')
    if (units > 0n) chains.pay(address, units)
    for (let credited = units === 0n; !credited; ) {
      const { status } = (await (await fetch(`${path}/${id}`, { headers })).json()) as { status: string }
      credited = status.startsWith('credited')
    }
    ids.push(id)
  }
  return { ids, pairs: PAIRS }
}
