/** Fields of a log line: never a secret, a prompt, or an answer's text. */
export type LogFields = Readonly<Record<string, unknown>>

/** What everything that logs is given; `infra/log.ts` makes one of it. Structurally a pino logger. */
export interface Log {
  debug(fields: LogFields, message: string): void
  info(fields: LogFields, message: string): void
  warn(fields: LogFields, message: string): void
  error(fields: LogFields, message: string): void
}
