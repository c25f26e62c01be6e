/** How a command line ends: its exit code, its result on stdout, its problems on stderr. Both programs do it alike. */

/** Exit codes; `readerLeft` is the one that shells give to a program that SIGPIPE ended. */
export const EXIT = { done: 0, failed: 1, misunderstood: 2, readerLeft: 141 } as const

/** Where a command prints. */
export interface CommandOutput {
  /** Writes a result; rejects with the system's error when it can't be written whole. */
  readonly print: (text: string) => Promise<void>
  readonly stderr: (text: string) => void
  /** Takes out of a problem whatever may not be printed; left out: nothing is. */
  readonly clean?: (text: string) => string
}

/** The output of a command, as JSON and as text. */
export interface ShownResult {
  readonly json: unknown
  readonly text: string
  /** 0 unless it says otherwise. */
  readonly exitCode?: number
  /** Takes back a secret that nobody has seen, because the result can't be written. */
  readonly undo?: UndoSecret
  /** Says how a result that can't be written, and is charged already, is had again. */
  readonly lostAdvice?: string
}

export interface UndoSecret {
  readonly run: () => Promise<void>
  /** Says that it was done: `the key … was revoked`. */
  readonly done: string
  /** Says what to do when it can't be done. */
  readonly advice: string
}

/** Why a command ended without success; each problem is one sentence. */
export interface CommandProblems {
  /** For programs, with `--json`. */
  readonly code: string
  readonly problems: readonly string[]
}

/** Prints a result and returns the exit code. Where it can't be written, says so and takes back the secret that it shows. */
export async function printResult(output: CommandOutput, json: boolean, result: ShownResult): Promise<number> {
  try {
    await output.print(json ? `${JSON.stringify(result.json)}\n` : result.text)
    return result.exitCode ?? EXIT.done
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown'
    const { undo, lostAdvice } = result
    // The reader has left, as `head` does.
    if (undo === undefined && lostAdvice === undefined && code === 'EPIPE') return EXIT.readerLeft
    const problems = [`the result can't be written to standard output (${code}): write it to another place`]
    if (lostAdvice !== undefined) problems.push(lostAdvice)
    if (undo !== undefined) {
      const isUndone = await undo.run().then(
        () => true,
        () => false,
      )
      problems.push(isUndone ? `${undo.done}, since nobody has seen its secret: make another` : undo.advice)
    }
    printProblems(output, json, { code: 'output_lost', problems })
    return EXIT.failed
  }
}

/** Prints problems to stderr, a line each whatever its text: scripts read stderr line by line. As one line of JSON with `json`. */
export function printProblems(
  { stderr, clean = (text) => text }: Omit<CommandOutput, 'print'>,
  json: boolean,
  { code, problems }: CommandProblems,
): void {
  const lines = problems.map((problem) => clean(problem.trim().replace(/\s*\n\s*/g, '; ')))
  if (json) stderr(`${JSON.stringify({ error: { code, message: lines.join('; '), problems: lines } })}\n`)
  else stderr(lines.map((line) => `tollgate: ${line}\n`).join(''))
}

/** Returns the sentence about an error that is a fault of the program: what it is, and where it was thrown. */
export function describeFault(error: unknown): string {
  if (!(error instanceof Error)) return `this is a fault in Tollgate, please report it: ${String(error)}`
  const [, place = 'unknown place'] = /^\s*(at .*)$/m.exec(error.stack ?? '') ?? []
  return `this is a fault in Tollgate, please report it: ${error.name}: ${error.message} (${place})`
}
