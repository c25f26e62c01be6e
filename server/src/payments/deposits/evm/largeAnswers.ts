/** Large answers of nodes of the EVM, which a thread parses. It lives as long as there are any. */

import { createThreadCalls } from '../../../infra/threadCalls.ts'
import type { Log } from '../../../lib/log.ts'
import type { NodeAnswer } from '../chains/answer.ts'
import type { ReadLarge } from '../chains/rpc.ts'
import type { AskedEvents, EvmLog, EvmReceipt } from './shapes.ts'

/** The work of the thread: an answer to parse. `events`: the events that were asked for; null: the answer is a receipt. */
export interface LargeAnswerTask {
  readonly bytes: Uint8Array<ArrayBuffer>
  readonly events: AskedEvents | null
}

export interface LargeAnswers {
  readonly events: (asked: AskedEvents) => ReadLarge<EvmLog[]>
  readonly receipt: ReadLarge<EvmReceipt | null>
}

/** Makes functions that parse large answers in a thread, which starts with the first one. */
export function createLargeAnswers(log: Log): LargeAnswers {
  const file = new URL('./largeAnswerThread.ts', import.meta.url)
  const failed = 'deposits: the thread that parses large answers of nodes failed'
  const calls = createThreadCalls<LargeAnswerTask, NodeAnswer<unknown>>({ file, failed, log })
  async function read<T>(bytes: Uint8Array<ArrayBuffer>, events: AskedEvents | null): Promise<NodeAnswer<T>> {
    try {
      return (await calls.call({ bytes, events }, [bytes.buffer])) as NodeAnswer<T>
    } catch {
      // The log has the reason, and the node is asked after the others.
      return { kind: 'otherForm' }
    } finally {
      // Its memory is that of the largest answer.
      if (calls.waiting === 0) await calls.close()
    }
  }
  return { events: (asked) => (bytes) => read(bytes, asked), receipt: (bytes) => read(bytes, null) }
}
