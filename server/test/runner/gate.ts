/**
 * Runs the files of `npm test`: several at a time, then the failed ones again, alone. A file that fails only sometimes is
 * a bug too, but must not hold back other work: it is named at the end (`UNSTABLE`), and the run passes.
 */

import type { Failure } from './failures.ts'
import type { FileRun } from './runFile.ts'

/** A file runs at most this often. */
const TRIES = 3
/** More failed files than this are no accident: none of them runs again. */
const REPEATED_FILES_MOST = 3

export interface Unstable {
  readonly file: string
  /** Why it failed the first time. */
  readonly first: FileRun
  /** The try that passed: 2 or 3. */
  readonly passedAt: number
}

export interface Outcome {
  /** The last run of each file. */
  readonly runs: readonly FileRun[]
  readonly unstable: readonly Unstable[]
}

export interface GateOptions {
  /** How many groups of files run at the same time. */
  readonly atOnce: number
  /** Runs the files of a group, one after the other. */
  readonly run: (files: readonly string[]) => Promise<readonly FileRun[]>
  /** Is told of each run that ended, with the number of tries of its file. */
  readonly report: (run: FileRun, tries: number) => void
}

/** Runs the files group by group, and each failed one again, alone, unless it met its time limit or too many failed. */
export async function runGate(
  groups: readonly (readonly string[])[],
  { atOnce, run, report }: GateOptions,
): Promise<Outcome> {
  const runs = new Map<string, FileRun>()
  const queue = [...groups]
  const work = async () => {
    for (let group = queue.shift(); group !== undefined; group = queue.shift()) {
      for (const ended of await run(group)) {
        runs.set(ended.file, ended)
        report(ended, 1)
      }
    }
  }
  await Promise.all(Array.from({ length: atOnce }, work))

  const failed = [...runs.values()].filter((each) => each.failed > 0)
  const unstable: Unstable[] = []
  for (const first of failed.length > REPEATED_FILES_MOST ? [] : failed) {
    for (let tries = 2; tries <= TRIES && !first.late; tries += 1) {
      const [again = first] = await run([first.file])
      runs.set(first.file, again)
      report(again, tries)
      if (again.failed > 0 && !again.late) continue
      if (again.failed === 0) unstable.push({ file: first.file, first, passedAt: tries })
      break
    }
  }
  return { runs: [...runs.values()], unstable }
}

/** `file: test (passed at try 2)` for each test that failed the first time. */
export function unstableLines({ file, first, passedAt }: Unstable): string[] {
  return first.failures.map((failure) => `UNSTABLE: ${file}: ${titleOf(failure)} (passed at try ${passedAt})`)
}

/** The name of a failed test as people read it. */
export function titleOf({ name }: Failure): string {
  return name.length === 0 ? 'the file as a whole' : name.join(' > ')
}
