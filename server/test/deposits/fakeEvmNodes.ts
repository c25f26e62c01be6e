/** Nodes of the EVM in memory that are slow, behind or flooded when a test says so. */

import type { Fetch } from '../../src/infra/fetch.ts'
import { createLog } from '../../src/infra/log.ts'
import { Secret } from '../../src/lib/secret.ts'
import type { ChainReader } from '../../src/payments/deposits/chains/chain.ts'
import { createEvmReader } from '../../src/payments/deposits/evm/reader.ts'
import { TurnedClock } from '../clock.ts'

const TRANSFER_TOPIC = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'

export const FAKE_TOKEN = `0x${'c0'.repeat(20)}`
const SENDER = `0x${'5e'.repeat(20)}`

/** An event of a transfer, each in a transaction of its own unless a test says otherwise. */
export interface FakeEvent {
  readonly block: number
  readonly to: string
  readonly units: bigint
  readonly contract?: string
  readonly sender?: string
  readonly transaction?: string
  /** In place of the word with its units. */
  readonly data?: string
}

interface LogFilter {
  readonly fromBlock: string
  readonly toBlock: string
  readonly address?: readonly string[]
  readonly topics: readonly [string, null, readonly string[]]
}

interface RpcQuestion {
  readonly method: string
  readonly params: readonly unknown[]
}

const word = (value: bigint | number) => `0x${value.toString(16).padStart(64, '0')}`
const topicOf = (address: string) => `0x${'0'.repeat(24)}${address.slice(2)}`
const hashOf = (block: number) => word(BigInt(block) + 0xabc000n)

/** One node, which sees what stands in it. */
export class FakeEvmNode {
  chainId = 8_453
  decimals = 6
  finalBlock = 100
  headBlock = 110
  events: readonly FakeEvent[] = []
  /** How long it takes for each answer. */
  slowMs = 0
  /** Returns whether it refuses a question for events. */
  refuses: (filter: LogFilter) => boolean = () => false
  /** Sent in place of any answer. */
  instead: (question: RpcQuestion) => string | null = () => null
  readonly asked: string[] = []

  answer({ method, params }: RpcQuestion): unknown {
    switch (method) {
      case 'eth_chainId':
        return `0x${this.chainId.toString(16)}`
      case 'eth_call':
        return word(this.decimals)
      case 'eth_blockNumber':
        return `0x${this.headBlock.toString(16)}`
      case 'eth_getBlockByNumber': {
        const number = params[0] === 'finalized' ? this.finalBlock : Number(params[0])
        return number > this.headBlock ? null : { number: `0x${number.toString(16)}`, hash: hashOf(number) }
      }
      case 'eth_getLogs':
        return this.logsOf(params[0] as LogFilter)
      default:
        return this.receiptOf(String(params[0]))
    }
  }

  private logsOf({ fromBlock, toBlock, address, topics: [, , receivers] }: LogFilter) {
    return this.numbered().flatMap(({ event, logIndex, transactionHash }) => {
      const { block, to, contract = FAKE_TOKEN, sender = SENDER, units, data = word(units) } = event
      if (block < Number(fromBlock) || block > Number(toBlock)) return []
      if (!receivers.includes(topicOf(to)) || address?.includes(contract) === false) return []
      return [
        {
          address: contract,
          topics: [TRANSFER_TOPIC, topicOf(sender), topicOf(to)],
          data,
          blockNumber: `0x${block.toString(16)}`,
          blockHash: hashOf(block),
          transactionHash,
          logIndex: `0x${logIndex.toString(16)}`,
        },
      ]
    })
  }

  private receiptOf(hash: string) {
    const logs = this.numbered().filter(({ transactionHash }) => transactionHash === hash)
    const [first] = logs
    if (first === undefined) return null
    return {
      blockHash: hashOf(first.event.block),
      logs: logs.map(({ logIndex }) => ({ logIndex: `0x${logIndex.toString(16)}` })),
    }
  }

  private numbered() {
    return this.events.map((event, index) => ({
      event,
      logIndex: index,
      transactionHash: event.transaction ?? word(index + 1),
    }))
  }
}

/** A reader of these nodes, with a clock that stands still but for nodes that are slow. */
export function readFakeNodes(nodes: readonly FakeEvmNode[]): {
  readonly reader: ChainReader
  readonly clock: TurnedClock
  /** Nodes that did not answer well, by their place, with the trouble. */
  readonly troubles: string[]
} {
  const clock = new TurnedClock()
  const troubles: string[] = []
  const send: Fetch = async (url, { body }) => {
    const node = nodes[Number(new URL(url).port) - 1]
    if (node === undefined) throw new Error('there is no such node')
    const question = JSON.parse(String(body)) as RpcQuestion
    node.asked.push(question.method)
    if (node.slowMs > 0) await clock.turn(node.slowMs)
    const instead = node.instead(question)
    if (instead !== null) return new Response(instead)
    if (question.method === 'eth_getLogs' && node.refuses(question.params[0] as LogFilter))
      return Response.json({ id: 1, error: { code: -32_005 } })
    return Response.json({ id: 1, result: node.answer(question) })
  }
  const reader = createEvmReader({
    settings: {
      chain: 'base',
      rpcUrls: nodes.map((_, index) => new Secret(`http://node.test:${index + 1}/`)),
      tokens: { usdc: FAKE_TOKEN },
    },
    clock,
    send,
    onError: (node, trouble) => void troubles.push(`${node} ${trouble}`),
    log: createLog('fatal', { write: () => {} }),
  })
  return { reader, clock, troubles }
}
