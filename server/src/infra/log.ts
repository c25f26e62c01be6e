import { type DestinationStream, pino } from 'pino'
import type { Log } from '../lib/log.ts'

/** JSON escapes the control characters below 32 and leaves these. A terminal that shows a log may obey them. */
const OTHER_CONTROLS = /[\u007f-\u009f]/g

/**
 * Structured logs, one JSON object a line, with every control character escaped: a request id may hold any byte above 127.
 * Errors are written by name, message and stack only: libraries hang requests,
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
    { write: (line) => destination.write(line.replace(OTHER_CONTROLS, escaped)) },
  )
}

function escaped(character: string): string {
  return `\\u00${character.charCodeAt(0).toString(16)}`
}

function describe(error: unknown) {
  if (!(error instanceof Error)) return { message: String(error).slice(0, 500) }
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined
  return { name: error.name, code, message: error.message.slice(0, 500), stack: error.stack?.slice(0, 4_000) }
}
