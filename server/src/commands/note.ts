import { type Invocation, UsageFailure } from './command.ts'

/** A note is for people who read the ledger, not for documents. */
const NOTE_CHARACTERS_MAX = 500

/** Returns the text of `--note`, or null where it is not given. Throws a usage failure if it is too long. */
export function noteOf(invocation: Invocation): string | null {
  const note = invocation.text('note') ?? null
  if (note !== null && note.length > NOTE_CHARACTERS_MAX) {
    throw new UsageFailure(`--note is too long: use at most ${NOTE_CHARACTERS_MAX} characters`)
  }
  return note
}
