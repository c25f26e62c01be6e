/** How far each node of the chains is, for the metrics and the log. */

import type { DepositChain } from '../../../catalog/depositChain.ts'
import type { LabelledGauge } from '../../../lib/gauge.ts'
import type { Log } from '../../../lib/log.ts'
import type { OnNodeFinal } from './rpc.ts'

/** The final blocks that the nodes of all chains have told this process. */
export interface NodeFinals {
  readonly gauge: LabelledGauge
  /** Returns what is to be told of the nodes of a chain. It logs a node once when it falls far behind, and once when it is back. */
  of(chain: DepositChain): OnNodeFinal
}

/** Makes it, empty. */
export function createNodeFinals(log: Log): NodeFinals {
  const finals = new Map<string, { readonly labels: Record<string, string>; block: number; isBehind: boolean }>()
  return {
    gauge: {
      name: 'tollgate_deposit_node_final_block',
      help: 'The final block that a node told last, by its place in the settings. Compare the nodes of a chain.',
      labelNames: ['chain', 'node'],
      readEach: () => [...finals.values()].map(({ labels, block }) => [labels, block]),
    },
    of: (chain) => (node, finalBlock, isBehind) => {
      const name = `${chain} ${node}`
      const wasBehind = finals.get(name)?.isBehind ?? false
      finals.set(name, { labels: { chain, node: String(node) }, block: finalBlock, isBehind })
      if (isBehind && !wasBehind)
        log.warn(
          { chain, node, finalBlock },
          'deposits: a node is far behind the furthest one of its chain; with only two, credit waits for it',
        )
      if (wasBehind && !isBehind) log.info({ chain, node, finalBlock }, 'deposits: a node is not behind any more')
    },
  }
}
