import { MINUTE_MS, SECOND_MS } from '../../../server/src/lib/time.ts'
import { callApi, isTransient } from '../api.ts'
import type { CommandLine } from '../command.ts'
import { CliFailure, Interruption } from '../failure.ts'
import { pauseUnlessLeft } from '../pause.ts'
import type { System } from '../system.ts'
import type { ShownOperation } from './instance.ts'

/** The pauses between looks, as the server advises; the last one stays. */
const LOOKS_MS = [1, 2, 4, 8, 16, 30].map((seconds) => seconds * SECOND_MS)

/** The server gives up a creation within an hour at most; a script must not wait for ever. */
const WAIT_MS = 70 * MINUTE_MS

/** Waits until an operation is over. Throws {@link CliFailure} when it fails, {@link Interruption} on Ctrl-C. */
export async function waitForOperation(
  args: CommandLine,
  system: System,
  begun: ShownOperation,
): Promise<ShownOperation> {
  const leaving = new AbortController()
  const forget = system.onInterrupt(() => leaving.abort())
  const untilMs = system.clock.monotonicMs() + WAIT_MS
  const call = { method: 'GET', path: `/v1/operations/${encodeURIComponent(begun.operation_id)}` } as const
  try {
    let operation = begun
    for (let looks = 0; operation.state === 'pending' || operation.state === 'in_progress'; looks += 1) {
      if (system.clock.monotonicMs() >= untilMs) {
        throw new CliFailure(`the operation ${begun.operation_id} is not over after ${WAIT_MS / MINUTE_MS} minutes`)
      }
      await pauseUnlessLeft(system.clock, LOOKS_MS[looks] ?? 30 * SECOND_MS, leaving.signal)
      operation = await callApi(args, system, call, leaving.signal).then(
        (answer) => answer as ShownOperation,
        (error: unknown) => {
          // The server may be back at the next look.
          if (leaving.signal.aborted || !isTransient(error)) throw error
          return operation
        },
      )
    }
    if (operation.state === 'succeeded') return operation
    throw new CliFailure(operation.error?.detail ?? `the operation was ${operation.state}`)
  } catch (error) {
    if (!leaving.signal.aborted) throw error
    const id = begun.resource_id
    throw new Interruption(
      `left instance ${id}, which goes on and is billed: "tollgate instances get ${id}" shows it, "tollgate instances delete ${id}" ends it`,
    )
  } finally {
    forget()
  }
}
