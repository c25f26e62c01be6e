/** Fields of a log line: never a secret, a prompt, or an answer's text. */
export type LogFields = Readonly<Record<string, unknown>>

/** The log that is handed to all code that logs; `infra/log.ts` makes one of it. Structurally a pino logger. */
export interface Log {
  debug(fields: LogFields, message: string): void
  info(fields: LogFields, message: string): void
  warn(fields: LogFields, message: string): void
  error(fields: LogFields, message: string): void
}
