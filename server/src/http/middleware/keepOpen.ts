import type { Middleware } from '../pipeline.ts'

/**
 * Turns the idle timeout of the connection off, once the caller is let in: a body has a deadline of its own, and so has whatever
 * the handler waits for. Strangers keep the short timeout.
 */
export const keepOpen: Middleware = ({ connection }) => {
  connection.setIdleTimeout(0)
  return null
}
