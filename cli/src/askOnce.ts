import { type ApiAnswer, type ApiCall, askApi, ServerRefusal, ServerUnreached } from './api.ts'
import type { CommandLine } from './command.ts'
import { CliFailure, Interruption } from './failure.ts'
import type { System } from './system.ts'

/** Asks the server for something that costs money, so that it is made and charged once, however often it is asked for. */

export interface OnceCall extends ApiCall {
  readonly idempotencyKey: string
  /** Said when Ctrl-C ends the waiting, such as "left the images, which the server may go on to make". */
  readonly left: string
  /** Says how the result is had without a second charge, if it was made: a command with the same Idempotency-Key. */
  readonly advice: string
}

/** Returns the answer. Where the result may have been made without one, the failure ends with the call's advice. */
export async function askOnce(args: CommandLine, system: System, once: OnceCall): Promise<ApiAnswer> {
  const { idempotencyKey, left, advice, ...call } = once
  const leaving = new AbortController()
  const forget = system.onInterrupt(() => leaving.abort())
  try {
    return await askApi(args, system, { ...call, headers: { 'Idempotency-Key': idempotencyKey } }, leaving.signal)
  } catch (error) {
    if (leaving.signal.aborted) throw new Interruption(`${left}: ${advice}`)
    if (mayBeMade(error)) throw new CliFailure(withAdvice(error.message, advice), error)
    throw error
  } finally {
    forget()
  }
}

/**
 * Returns whether the server may have made it all the same: it was not heard, something on the way has answered for it, it could not
 * bring the call to its end, or another request with the key is under way.
 */
function mayBeMade(error: unknown): error is CliFailure {
  if (!(error instanceof ServerRefusal)) return error instanceof ServerUnreached
  return error.status >= 500 || error.code === 'not_understood' || error.code === 'idempotency_conflict'
}

/** The server's own words are sentences. */
function withAdvice(words: string, advice: string): string {
  if (!words.endsWith('.')) return `${words}; ${advice}`
  return `${words} ${advice.charAt(0).toUpperCase()}${advice.slice(1)}.`
}
