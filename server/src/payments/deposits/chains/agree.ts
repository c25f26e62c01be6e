/** The answers in which two nodes of a chain must agree. */

import { type BlockRange, type BlockReference, ChainFailure, type ChainTransfer } from './chain.ts'
import { askAny, askTwo, type ChainNode } from './rpc.ts'

/** A final block, and the nodes that have told its hash. Only those know what is in the blocks up to it. */
interface AgreedFinal {
  readonly final: BlockReference
  readonly nodes: readonly ChainNode[]
}

/**
 * Finds the newest block that two nodes hold for final and have the same hash of. A node that is ahead is asked for the block that the
 * other one is at. So one that is behind, away or wrong stops nothing while two others agree, and one that is wrong alone settles nothing.
 * Nodes that are paused are asked where the others do not agree.
 */
async function agreeOnFinal(
  nodes: readonly ChainNode[],
  newestFinal: (node: ChainNode) => Promise<BlockReference>,
  blockAt: (node: ChainNode, number: number) => Promise<BlockReference>,
): Promise<AgreedFinal> {
  if (nodes.length < 2) {
    const final = await askAny(nodes, newestFinal)
    for (const node of nodes) node.noteFinal(final.number, final.number)
    return { final, nodes }
  }
  const ready = nodes.filter((node) => !node.isPaused())
  if (ready.length >= 2 && ready.length < nodes.length) {
    const agreed = await agreeAmong(ready, newestFinal, blockAt)
    if (!(agreed instanceof ChainFailure)) return agreed
  }
  const agreed = await agreeAmong(nodes, newestFinal, blockAt)
  if (agreed instanceof ChainFailure) throw agreed
  return agreed
}

/** A final block, as one node tells it. */
interface Answer {
  readonly node: ChainNode
  readonly final: BlockReference
}

async function agreeAmong(
  nodes: readonly ChainNode[],
  newestFinal: (node: ChainNode) => Promise<BlockReference>,
  blockAt: (node: ChainNode, number: number) => Promise<BlockReference>,
): Promise<AgreedFinal | ChainFailure> {
  let last: ChainFailure | null = null
  const attempt = async (node: ChainNode, work: Promise<BlockReference>): Promise<Answer[]> => {
    try {
      return [{ node, final: await work }]
    } catch (error) {
      if (!(error instanceof ChainFailure)) throw error
      last = error
      return []
    }
  }
  const answers = (await Promise.all(nodes.map((node) => attempt(node, newestFinal(node))))).flat()
  answers.sort((one, other) => other.final.number - one.final.number)
  for (const { node, final } of answers) node.noteFinal(final.number, answers[0]?.final.number ?? final.number)
  for (const [index, { node, final }] of answers.entries()) {
    const others = answers.filter((_, place) => place !== index).filter((each) => each.final.number >= final.number)
    const told = await Promise.all(
      others.map((each) =>
        each.final.number === final.number ? [each] : attempt(each.node, blockAt(each.node, final.number)),
      ),
    )
    const isSame = (each: Answer) => each.final.hash === final.hash && each.final.number === final.number
    const agreeing = told.flat().filter(isSame)
    if (agreeing.length === 0) continue
    for (const each of told.flat()) if (!isSame(each)) each.node.disagreed()
    return { final, nodes: [node, ...agreeing.map((each) => each.node)] }
  }
  if (answers.length > 1 && last === null) {
    for (const { node } of answers) node.disagreed()
    return new ChainFailure('disagree', 'no two nodes agree on what is final')
  }
  return last ?? new ChainFailure('away', 'one node alone answers, and two must agree')
}

/** Asks those nodes for the hash of a final block that were not asked for it, or did not have it; adds the ones that tell the same. */
async function askOthersFor(
  { final, nodes: known }: AgreedFinal,
  nodes: readonly ChainNode[],
  blockAt: (node: ChainNode, number: number) => Promise<BlockReference>,
): Promise<AgreedFinal> {
  const others = nodes.filter((node) => !known.includes(node))
  const told = await Promise.all(
    others.map(async (node) => {
      try {
        const { number, hash } = await blockAt(node, final.number)
        return number === final.number && hash === final.hash ? [node] : []
      } catch (error) {
        if (!(error instanceof ChainFailure)) throw error
        return []
      }
    }),
  )
  return { final, nodes: [...known, ...told.flat()] }
}

/** The nodes of a chain, of which those are asked for transfers in final blocks that know the final block. */
export interface FinalNodes {
  /** The newest block that can't be taken back, as two nodes see it where there are two. */
  finalBlock(): Promise<BlockReference>
  /** The nodes that are known to have all blocks of a range: those that have told the hash of a final block behind it. Throws `moved`. */
  nodesFor(range: BlockRange): readonly ChainNode[]
  /** The transfers of a range that two of those nodes agree on, or one where there is one. */
  transfersIn(
    range: BlockRange,
    ask: (node: ChainNode) => Promise<readonly ChainTransfer[]>,
  ): Promise<readonly ChainTransfer[]>
}

/** Makes the final nodes of a chain from its nodes and two questions: for the newest final block, and for a final block by its number. */
export function createFinalNodes(
  nodes: readonly ChainNode[],
  newestFinal: (node: ChainNode) => Promise<BlockReference>,
  blockAt: (node: ChainNode, number: number) => Promise<BlockReference>,
): FinalNodes {
  let agreed: AgreedFinal | null = null
  const nodesFor = ({ to }: BlockRange) => {
    if (nodes.length < 2) return nodes
    // Another look has found another final block meanwhile.
    if (agreed === null || agreed.final.number < to)
      throw new ChainFailure('moved', 'no two nodes have told of the last block of a range')
    return agreed.nodes
  }
  return {
    nodesFor,
    async finalBlock() {
      agreed = await agreeOnFinal(nodes, newestFinal, blockAt)
      return agreed.final
    },
    async transfersIn(range, ask) {
      const known = nodesFor(range)
      try {
        return await askTwo(known, ask, nameTransfers)
      } catch (error) {
        if (!(error instanceof ChainFailure) || agreed === null || known.length === nodes.length) throw error
        // Perhaps one that was paused, or behind, agrees with one of them.
        agreed = await askOthersFor(agreed, nodes, blockAt)
        const more = nodesFor(range)
        if (more.length === known.length) throw error
        return askTwo(more, ask, nameTransfers)
      }
    },
  }
}

/**
 * The newest block that two nodes have; of one node where no other answers. So one that is wrong alone makes no head, and one that stands
 * still alone against two holds none back.
 */
export async function agreeOnHead(
  nodes: readonly ChainNode[],
  askHead: (node: ChainNode) => Promise<number>,
): Promise<number> {
  let last: unknown = new ChainFailure('away', 'there is no node')
  const heads: number[] = []
  const ask = async (node: ChainNode) => {
    try {
      heads.push(await askHead(node))
    } catch (error) {
      if (!(error instanceof ChainFailure)) throw error
      last = error
    }
  }
  const paused = nodes.filter((node) => node.isPaused())
  await Promise.all(nodes.filter((node) => !paused.includes(node)).map(ask))
  if (heads.length < 2) await Promise.all(paused.map(ask))
  heads.sort((one, other) => other - one)
  const head = heads[1] ?? heads[0]
  if (head === undefined) throw last
  return head
}

/** Two nodes that give the same text have told of the same transfers. Screening decides by the senders, so all of them are in it. */
function nameTransfers(transfers: readonly ChainTransfer[]): string {
  return JSON.stringify(
    transfers
      .map(({ transactionHash, ordinal, block: { number, hash }, token, sender, otherSenders, address, units }) =>
        [transactionHash, ordinal, number, hash, token, sender, address, units, ...otherSenders].join(' '),
      )
      .sort(),
  )
}
