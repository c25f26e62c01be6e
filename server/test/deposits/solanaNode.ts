/** A small node of Solana: the questions that the gateway asks, answered as validators do. */

import type { SentTransaction, SolanaTestChain } from './solanaChain.ts'

/** A question that a node refuses, with its code. */
class RpcRefusal extends Error {
  readonly code: number
  constructor(code: number) {
    super(`refused with ${code}`)
    this.code = code
  }
}

interface Asked {
  readonly method: string
  readonly params: readonly unknown[]
}

interface ListOptions {
  readonly limit?: number
  readonly before?: string
  readonly commitment?: string
  readonly minContextSlot?: number
}

/** Starts one. */
export function openSolanaNode(chain: SolanaTestChain) {
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const asked = (await request.json()) as Asked
      try {
        return Response.json({ jsonrpc: '2.0', id: 1, result: answer(chain, asked) })
      } catch (error) {
        const code = error instanceof RpcRefusal ? error.code : -32_603
        return Response.json({ jsonrpc: '2.0', id: 1, error: { code, message: String(error) } })
      }
    },
  })
  return { url: `http://127.0.0.1:${server.port}`, close: () => server.stop(true) }
}

function answer(chain: SolanaTestChain, { method, params }: Asked): unknown {
  const [first, second = {}] = params
  const slotOf = ({ commitment }: { commitment?: string }) =>
    commitment === 'confirmed' ? chain.slot : chain.finalSlot
  switch (method) {
    case 'getGenesisHash':
      return chain.genesis
    case 'getFirstAvailableBlock':
      return 0
    case 'getSlot':
      return slotOf(first as object)
    case 'getLatestBlockhash': {
      const slot = slotOf(first as object)
      return { context: { slot }, value: { blockhash: chain.blockhash(slot), lastValidBlockHeight: slot + 150 } }
    }
    case 'getBlock': {
      // Not available yet.
      if ((first as number) > chain.finalSlot) throw new RpcRefusal(-32_004)
      return { blockhash: chain.blockhash(first as number), parentSlot: (first as number) - 1, blockHeight: first }
    }
    case 'getAccountInfo': {
      const found = chain.account(first as string)
      const data = found === null ? null : [Buffer.from(found.data).toString('base64'), 'base64']
      return { context: { slot: chain.finalSlot }, value: found && { owner: found.owner, data, lamports: 1, space: 0 } }
    }
    case 'getMultipleAccounts': {
      const value = (first as string[]).map((each) => chain.account(each) && { owner: '', data: ['', 'base64'] })
      return { context: { slot: chain.slot }, value }
    }
    case 'getSignaturesForAddress':
      return listSignatures(chain, first as string, second as ListOptions, slotOf(second as object))
    case 'getTransaction':
      return transactionOf(
        chain.sent.find(({ signature, slot }) => signature === first && slot <= slotOf(second as object)),
      )
    default:
      throw new RpcRefusal(-32_601)
  }
}

/** The newest first. */
function listSignatures(chain: SolanaTestChain, account: string, options: ListOptions, slot: number) {
  const { limit = 1_000, before, minContextSlot = 0 } = options
  // The node is not as far as that.
  if (minContextSlot > slot) throw new RpcRefusal(-32_016)
  const all = chain.sent.filter((each) => each.accountKeys.includes(account) && each.slot <= slot).toReversed()
  const from = before === undefined ? 0 : all.findIndex(({ signature }) => signature === before) + 1
  return all.slice(from, from + limit).map((each) => ({
    signature: each.signature,
    slot: each.slot,
    err: each.err,
    memo: null,
    blockTime: null,
    confirmationStatus: each.slot <= chain.finalSlot ? 'finalized' : 'confirmed',
  }))
}

function transactionOf(sent: SentTransaction | undefined) {
  if (sent === undefined) return null
  const { signature, slot, version, accountKeys, err, preTokenBalances, postTokenBalances } = sent
  const loadedAddresses = { writable: [], readonly: [] }
  return {
    slot,
    version,
    blockTime: null,
    transaction: { signatures: [signature], message: { accountKeys, instructions: [] } },
    meta: { err, fee: 5_000, preTokenBalances, postTokenBalances, loadedAddresses, innerInstructions: [] },
  }
}
