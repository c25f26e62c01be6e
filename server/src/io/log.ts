import { type DestinationStream, pino } from 'pino'
import type { Log } from '../kernel/log.ts'

/**
 * Structured logs, one JSON object a line. Errors are written by name, message and stack only: libraries hang requests,
 * with headers and bodies, onto theirs.
 */
export function createLog(level: string, destination: DestinationStream): Log {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: describe },
    },
    destination,
  )
}

function describe(error: unknown) {
  if (!(error instanceof Error)) return { message: String(error).slice(0, 500) }
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined
  return { name: error.name, code, message: error.message.slice(0, 500), stack: error.stack?.slice(0, 4_000) }
}
