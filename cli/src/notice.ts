import { plainText } from './plainText.ts'
import type { System } from './system.ts'
import { wrapAtSpaces } from './wrap.ts'

/** A message beside a result, which is no failure. */
interface Notice {
  /** For programs, with `--json`. */
  readonly code: string
  /** Without a line feed at the end. */
  readonly message: string
  /** The facts of the message, for programs, with `--json`. */
  readonly fields?: Readonly<Record<string, unknown>>
}

/** Writes a notice to stderr: with `--json` as one line of JSON, else as text for a person. */
export function sayNotice(system: Pick<System, 'stderr' | 'stderrColumns' | 'isJson'>, notice: Notice): void {
  const { code, fields } = notice
  const message = plainText(notice.message)
  if (system.isJson === true)
    system.stderr(`${JSON.stringify({ notice: { code, message: message.trim(), ...fields } })}\n`)
  else system.stderr(`${wrapAtSpaces(message, system.stderrColumns)}\n`)
}
