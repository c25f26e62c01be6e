/** A reason why a command ends without success, which the person can understand and mend. Each problem is one sentence. */
export class CliFailure extends Error {
  readonly problems: readonly string[]
  /** For programs, with `--json`. */
  readonly code: string
  readonly exitCode: number
  constructor(problems: string | readonly string[], { code = 'failed', exitCode = 1 } = {}) {
    const all = typeof problems === 'string' ? [problems] : problems
    super(all.join('; '))
    this.name = 'CliFailure'
    this.problems = all
    this.code = code
    this.exitCode = exitCode
  }
}

/** An argument or option that can't be used: exit code 2, like any other mistake on the command line. */
export class UsageMistake extends CliFailure {
  constructor(problem: string) {
    super(problem, { code: 'usage', exitCode: 2 })
  }
}

/** There is no API key, or the server does not accept it: exit code 4. */
export class LoginNeeded extends CliFailure {
  constructor(problem: string) {
    super(problem, { code: 'login_needed', exitCode: 4 })
  }
}

/** Ctrl-C; the problem says what goes on without the command. Exit code 130, as shells give it. */
export class Interruption extends CliFailure {
  constructor(problem: string) {
    super(problem, { code: 'interrupted', exitCode: 130 })
  }
}
