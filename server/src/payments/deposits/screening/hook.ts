/** The server that is asked before tokens are credited. */

import { z } from 'zod'
import type { DepositSettings } from '../../../catalog/settings.ts'
import { boundedFetch, type Fetch } from '../../../infra/fetch.ts'
import { type Clock, SECOND_MS } from '../../../lib/time.ts'
import { printUnits } from '../deposit/deposit.ts'
import type { Transfer } from '../transfers/transfer.ts'

const ANSWER_MS = 10 * SECOND_MS
const ANSWER_BYTES_MOST = 64 * 1024
/** Of its reason, in the rows and in lists. */
const REASON_CHARACTERS = 500
/** PostgreSQL can't store NUL, and a terminal executes other control characters. */
const CONTROL = /\p{Cc}/gu

const answerShape = z.object({
  verdict: z.enum(['pass', 'reject', 'hold']),
  reason: z.string().nullish(),
})

export type HookVerdict =
  | { readonly verdict: 'pass' }
  | { readonly verdict: 'reject' | 'hold'; readonly reason: string }
  /** It did not answer, or not as agreed. */
  | { readonly verdict: 'unknown' }

/** Returns what the hook says of a transfer. Never rejects. */
export type AskHook = (transfer: Transfer) => Promise<HookVerdict>

/** Makes the question to the hook of the settings; without one everything passes. */
export function createAskHook(settings: DepositSettings['screening'], clock: Clock, send: Fetch): AskHook {
  if (settings === null) return async () => ({ verdict: 'pass' })
  const { url, bearer } = settings
  const fetchBounded = boundedFetch(send, clock, { wholeMs: ANSWER_MS, maxBytes: ANSWER_BYTES_MOST })
  const headers = {
    'Content-Type': 'application/json',
    ...(bearer === null ? {} : { Authorization: `Bearer ${bearer.reveal()}` }),
  }
  return async (transfer) => {
    const body = JSON.stringify(toHook(transfer))
    try {
      const response = await fetchBounded(url.reveal(), { method: 'POST', headers, body })
      if (!response.ok) return { verdict: 'unknown' }
      const { verdict, reason } = answerShape.parse(await response.json())
      return { verdict, reason: (reason ?? '').replace(CONTROL, ' ').slice(0, REASON_CHARACTERS) }
    } catch {
      // The runtime's words may quote the address, which may hold a key.
      return { verdict: 'unknown' }
    }
  }
}

function toHook({ depositId, chain, asset, token, transactionHash, ordinal, sender, otherSenders, units }: Transfer) {
  const senders = [sender, ...otherSenders]
  const amount = printUnits(units)
  return { deposit_id: depositId, chain, asset, token, tx_hash: transactionHash, ordinal, sender, senders, amount }
}
