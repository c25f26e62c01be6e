import { SECOND_MS } from '../lib/time.ts'

/**
 * A client that takes nothing of its answer for this long, or asks nothing more on its connection, is cut off: it would hold memory, a
 * place, money and a provider for ever.
 */
export const STALLED_CLIENT_MS = 60 * SECOND_MS

/** Ends an answer whose handler has returned before it has left. Say so when it is cut short since the client has `stalled`. */
export type EndAnswer = (client?: 'stalled') => void
