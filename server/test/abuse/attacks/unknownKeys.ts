import { randomBytes } from 'node:crypto'
import type { Attack } from '../attack.ts'

const AT_ONCE = 200
/** Each loop sends so often. */
const EVERY_MS = 50

export const unknownKeys: Attack = {
  name: 'unknown keys',
  about:
    '4,000 requests a second with a new unknown key each, from the address of everybody else; 60 locked valid keys out.',
  async run({ url }, signal) {
    const byStatus = new Map<number, number>()
    const one = async () => {
      while (!signal.aborted) {
        const key = `svc_live_${randomBytes(12).toString('hex')}`
        let status = 0
        try {
          const answer = await fetch(`${url}/models`, { headers: { Authorization: `Bearer ${key}` }, signal })
          status = answer.status
          await answer.arrayBuffer()
        } catch {
          if (signal.aborted) return
        }
        byStatus.set(status, (byStatus.get(status) ?? 0) + 1)
        await new Promise((resolve) => setTimeout(resolve, EVERY_MS))
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, one))
    return byStatus
  },
}
