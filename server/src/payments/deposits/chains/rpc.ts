/** Questions to the nodes of a chain, by JSON-RPC over HTTP. */

import type { z } from 'zod'
import type { DepositChain } from '../../../catalog/depositChain.ts'
import { boundedFetch, type Fetch } from '../../../infra/fetch.ts'
import { HttpBodyTooLarge } from '../../../infra/httpClient.ts'
import { doubledMs } from '../../../lib/backoff.ts'
import type { Secret } from '../../../lib/secret.ts'
import { type Clock, MINUTE_MS, SECOND_MS } from '../../../lib/time.ts'
import { type NodeAnswer, readAnswer } from './answer.ts'
import { ChainFailure, type ChainTrouble } from './chain.ts'

/** Nodes answer within a second or two, also for many blocks. */
const ANSWER_MS = 10 * SECOND_MS
/** Most answers are a number or a hash. A longer one that somebody else can bring about is bounded where it is asked for. */
const ANSWER_BYTES_MOST = 64 * 1024

/** A longer answer is parsed in a thread, where the question has one: it would hold the event loop up. */
const THREAD_BYTES = 256 * 1024

/** A node that takes longer counts as slow: callers are waiting. */
const SLOW_MS = 3 * SECOND_MS

/** A node that fails, is slow or stands alone is asked after the others for so long; twice as long each time in a row. */
const PAUSE_FIRST_MS = MINUTE_MS
const PAUSE_LATEST_MS = 10 * MINUTE_MS

/** Told of each question that a node did not answer well: `node` is its place in the settings, from 1. */
export type OnRpcError = (node: number, trouble: ChainTrouble) => void

/** Told of the final block of a node with each look, and whether it is far behind the furthest node. `node` as above. */
export type OnNodeFinal = (node: number, finalBlock: number, isBehind: boolean) => void

/** The most that one question may take. */
export interface AskBounds {
  /** Of the answer; more is the trouble `too_large`. */
  readonly bytesMost?: number
  readonly wholeMs?: number
  /** The answer can be done without: a node that has none is asked as early as before. */
  readonly isOptional?: boolean
}

/** Does for a large answer in a thread as `readAnswer` does with the shape of the question. The bytes are handed over. */
export type ReadLarge<T> = (bytes: Uint8Array<ArrayBuffer>) => Promise<NodeAnswer<T>>

/** One node. */
export interface ChainNode {
  /** Asks one question. Throws {@link ChainFailure}, whose message names the node by its place in the settings. */
  ask<T>(
    method: string,
    parameters: readonly unknown[],
    shape: z.ZodType<T>,
    bounds?: AskBounds & { readonly readLarge?: ReadLarge<T> },
  ): Promise<T>
  /** Returns whether it is to be asked after the others for now. */
  isPaused(): boolean
  /** Has it asked after the others for a while. */
  pause(): void
  /** Counts that it has said something else than two others, or than the only other one. */
  disagreed(): void
  /** Notes the final block that it has told, and the one of the furthest node: one that is far behind is counted. */
  noteFinal(finalBlock: number, furthestBlock: number): void
  /** Makes the failure of an answer that can't be used, and counts it. `what` is a predicate, such as `sent no block`. */
  fail(trouble: ChainTrouble, what: string): ChainFailure
}

export interface ChainNodeOptions {
  readonly clock: Clock
  readonly send: Fetch
  readonly chain: DepositChain
  readonly urls: readonly Secret[]
  readonly onError: OnRpcError
  readonly onFinal?: OnNodeFinal | undefined
}

/** A final block this far behind that of the furthest node is no delay any more. Some 20 minutes; of Polygon 10, of Solana 2. */
const BEHIND_BLOCKS: Readonly<Record<DepositChain, number>> = {
  ethereum: 100,
  base: 600,
  arbitrum: 4_800,
  polygon: 300,
  solana: 300,
}

/** Returns the nodes of a chain, in the order of the settings. Redirects are not followed: a node is asked where it was named. */
export function createNodes(options: ChainNodeOptions): ChainNode[] {
  return options.urls.map((url, index) => createNode(options, url, index + 1))
}

function createNode(options: ChainNodeOptions, url: Secret, place: number): ChainNode {
  const { clock, send, chain, onError, onFinal } = options
  const pauses = createPauses(clock)
  const fail = (trouble: ChainTrouble, what: string) => {
    onError(place, trouble)
    return new ChainFailure(trouble, `node ${place} of ${chain} ${what}`)
  }
  return {
    fail,
    isPaused: pauses.isPaused,
    pause: pauses.begin,
    disagreed: () => onError(place, 'disagree'),
    noteFinal(finalBlock, furthestBlock) {
      const isBehind = furthestBlock - finalBlock > BEHIND_BLOCKS[chain]
      if (isBehind) onError(place, 'behind')
      onFinal?.(place, finalBlock, isBehind)
    },
    async ask(method, parameters, shape, bounds = {}) {
      const { bytesMost: maxBytes = ANSWER_BYTES_MOST, wholeMs = ANSWER_MS, isOptional = false, readLarge } = bounds
      const begunMs = clock.monotonicMs()
      try {
        const read = await askOnce(
          boundedFetch(send, clock, { wholeMs, maxBytes }),
          url,
          { method, parameters },
          (bytes) =>
            readLarge !== undefined && bytes.length > THREAD_BYTES ? readLarge(bytes) : readAnswer(bytes, shape),
        )
        if (clock.monotonicMs() - begunMs <= SLOW_MS) pauses.end()
        else if (!isOptional) pauses.begin()
        return read
      } catch (error) {
        if (!(error instanceof ChainFailure)) throw error
        const { trouble, message } = error
        const isOwnFault = trouble === 'away' || trouble === 'malformed' || clock.monotonicMs() - begunMs > SLOW_MS
        if (isOwnFault && !isOptional) pauses.begin()
        throw fail(trouble, `${message} (${method})`)
      }
    },
  }
}

/** Asks one question. The message of a failure is a predicate, such as `does not answer`. */
async function askOnce<T>(
  fetchBounded: Fetch,
  url: Secret,
  { method, parameters }: { readonly method: string; readonly parameters: readonly unknown[] },
  read: (bytes: Uint8Array<ArrayBuffer>) => NodeAnswer<T> | Promise<NodeAnswer<T>>,
): Promise<T> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: parameters })
  const headers = { 'Content-Type': 'application/json' }
  // The runtime's words about a failure may quote the address, which may hold a key.
  const response = await fetchBounded(url.reveal(), { method: 'POST', headers, body }).catch((error: unknown) =>
    error instanceof HttpBodyTooLarge ? error : null,
  )
  if (response === null) throw new ChainFailure('away', 'does not answer')
  if (response instanceof HttpBodyTooLarge) throw new ChainFailure('too_large', 'sent too large an answer')
  if (isOverloaded(response.status)) throw new ChainFailure('away', `answered ${response.status}`)
  const answer = await read(new Uint8Array(await response.arrayBuffer()))
  switch (answer.kind) {
    case 'read':
      return answer.value
    case 'refused':
      throw new ChainFailure('refused', `refused with code ${answer.code}`)
    case 'otherForm':
      throw new ChainFailure('malformed', 'sent an answer of another form')
    case 'none': {
      const isFine = response.status === 200
      throw new ChainFailure(isFine ? 'malformed' : 'away', isFine ? 'sent no JSON-RPC' : `answered ${response.status}`)
    }
  }
}

/** Remembers until when a node is asked after the others. */
function createPauses(clock: Pick<Clock, 'monotonicMs'>) {
  let untilMs = Number.NEGATIVE_INFINITY
  let inRow = 0
  const isPaused = () => clock.monotonicMs() < untilMs
  return {
    isPaused,
    begin() {
      // A failure meanwhile is the same failure.
      if (isPaused()) return
      untilMs = clock.monotonicMs() + doubledMs(PAUSE_FIRST_MS, PAUSE_LATEST_MS, inRow)
      inRow += 1
    },
    end() {
      if (!isPaused()) inRow = 0
    },
  }
}

/** Such a node would refuse a shorter question too. */
function isOverloaded(status: number): boolean {
  return status === 429 || status >= 500
}

/** Returns the nodes in the order in which they are asked: those that are paused come last. */
export function readyFirst(nodes: readonly ChainNode[]): ChainNode[] {
  return [...nodes].sort((one, other) => Number(one.isPaused()) - Number(other.isPaused()))
}

/** Asks one node after the other until one answers. Throws what the last one made of it. */
export async function askAny<T>(nodes: readonly ChainNode[], ask: (node: ChainNode) => Promise<T>): Promise<T> {
  let last: unknown = new ChainFailure('away', 'there is no node')
  for (const node of readyFirst(nodes)) {
    try {
      return await ask(node)
    } catch (error) {
      if (!(error instanceof ChainFailure)) throw error
      last = error
    }
  }
  throw last
}

/**
 * Asks one node after the other until two have given the same answer, by what `sameBy` makes of it. A single node is believed. One
 * that stood alone against two is paused. `too_many` is an answer too: of one node alone, which may be wrong, it counts only where no two
 * others agree. Throws `disagree` where two answered and no two agree, else what the last one made of it.
 */
export async function askTwo<T>(
  nodes: readonly ChainNode[],
  ask: (node: ChainNode) => Promise<T>,
  sameBy: (answer: T) => string,
): Promise<T> {
  if (nodes.length < 2) return askAny(nodes, ask)
  const answers = new Map<string, ChainNode>()
  let tooMany: { readonly node: ChainNode; readonly error: ChainFailure } | null = null
  let last: unknown = null
  for (const node of readyFirst(nodes)) {
    try {
      const answer = await ask(node)
      const key = sameBy(answer)
      if (answers.has(key)) {
        answers.delete(key)
        const alone = [...answers.values(), ...(tooMany === null ? [] : [tooMany.node])]
        for (const each of alone) stoodAlone(each)
        return answer
      }
      answers.set(key, node)
    } catch (error) {
      if (!(error instanceof ChainFailure)) throw error
      if (error.trouble !== 'too_many') last = error
      else if (tooMany === null) tooMany = { node, error }
      else throw error
    }
  }
  if (answers.size > 1) {
    for (const node of answers.values()) node.disagreed()
    throw new ChainFailure('disagree', 'no two nodes give the same answer')
  }
  throw tooMany?.error ?? last ?? new ChainFailure('away', 'one node alone answers, and two must agree')
}

function stoodAlone(node: ChainNode): void {
  node.disagreed()
  node.pause()
}
