/** The last lines of a run of tests: whoever reads only these knows what failed, why, and how to repeat it. */

import { commandOf, type Failure, seedOf } from './failures.ts'
import { type Outcome, titleOf, unstableLines } from './gate.ts'
import type { MissingProgram } from './programs.ts'
import type { FileRun } from './runFile.ts'

/** The reasons of failures take at most this many lines, so that all of them stand in the last 60. */
const FAILURE_LINES = 44
/** Of one failure: its name, seed and command, and the part of its message that is told. */
const FAILURE_LINES_LEAST = 4
const LINE_CHARACTERS = 200

/** More unstable files than this are no accident. */
const UNSTABLE_FILES_MOST = 3

/** A suite says how many seeds it tried by a line `seeds: N`, with whatever helps to repeat one after it. */
const SEEDS_LINE = /^\s*seeds: (\d+).*$/gm
/** A suite that could not install a package says so by such a line. */
const SKIPPED_LINE = /^skipped, .*$/gm

export interface Summary extends Outcome {
  readonly missing: readonly MissingProgram[]
  readonly seconds: number
  /** A suite that skips itself, since what it needs can't be had, fails the run. */
  readonly mayNotSkip: boolean
}

/** Lines for a run's end, of which the last is `N passed, N failed, N skipped`, and whether the run passes. */
export function summarize(summary: Summary): { readonly lines: string[]; readonly passed: boolean } {
  const { runs, unstable, missing, seconds, mayNotSkip } = summary
  const sum = (pick: (run: FileRun) => number) => runs.reduce((total, run) => total + pick(run), 0)
  const lines: string[] = []
  for (const each of unstable) lines.push('', ...unstableLines(each), each.first.output.trimEnd())
  const skippedThemselves = runs.flatMap(({ file, output }) =>
    allOf(output, SKIPPED_LINE).map((line) => `${file}: ${line}`),
  )
  lines.push('', ...failureLines(runs), ...missingLines(missing), ...skippedThemselves)
  if (unstable.length > 0) lines.push(`${unstable.length} unstable: find out whether the code or the test is wrong`)
  if (unstable.length > UNSTABLE_FILES_MOST) lines.push('FAILED: too many unstable files')
  const seeds = sum((run) => seedLines(run).reduce((total, line) => total + Number(/\d+/.exec(line)?.[0]), 0))
  if (seeds > 0) lines.push(`${seeds} seeds`)
  lines.push(`${runs.length} files in ${seconds.toFixed(0)} seconds`)
  const skipped = sum((run) => run.skipped) + missing.reduce((total, { files }) => total + files.length, 0)
  lines.push(`${sum((run) => run.passed)} passed, ${sum((run) => run.failed)} failed, ${skipped} skipped`)
  const isWhole = !mayNotSkip || (missing.length === 0 && skippedThemselves.length === 0)
  const passed = isWhole && unstable.length <= UNSTABLE_FILES_MOST && runs.every(({ failed }) => failed === 0)
  return { lines, passed }
}

/** The lines `seeds: N …` of a file's output. */
export function seedLines({ output }: FileRun): string[] {
  return allOf(output, SEEDS_LINE)
}

function allOf(output: string, pattern: RegExp): string[] {
  return [...output.matchAll(pattern)].map(([line]) => line.trim())
}

function failureLines(runs: readonly FileRun[]): string[] {
  const failures = runs.flatMap((run) => run.failures.map((failure) => ({ file: run.file, failure })))
  const told = failures.slice(0, Math.floor(FAILURE_LINES / FAILURE_LINES_LEAST))
  const share = Math.floor(FAILURE_LINES / Math.max(1, told.length))
  const lines = told.flatMap(({ file, failure }) => explain(file, failure, share))
  const untold = failures.slice(told.length)
  const files = new Set(untold.map(({ file }) => file)).size
  if (untold.length > 0) lines.push(`and ${untold.length} more failures in ${files} files: look for FAILED above`)
  return lines
}

/** At most `most` lines: the name, what was expected and received, the seed, the command that repeats it. */
function explain(file: string, failure: Failure, most: number): string[] {
  const seed = seedOf(failure)
  const head = `FAILED: ${file}: ${titleOf(failure)}${seed === null ? '' : ` (seed ${seed})`}`
  const reasons = reasonsOf(failure.message)
  const room = most - 2
  const shown = reasons.length <= room ? reasons : [...reasons.slice(0, room - 1), '…']
  return [head, ...shown, `again: ${commandOf(file, failure)}`].map((line, index) =>
    index === 0
      ? line.slice(0, LINE_CHARACTERS)
      : `  ${line.slice(0, line.startsWith('again') ? 2_000 : LINE_CHARACTERS)}`,
  )
}

/** The lines of a message that say the most, in their order; of a diff those that differ. */
function reasonsOf(message: string): string[] {
  const lines = message.split('\n').filter((line) => line.trim() !== '')
  const isDiff = lines.some((line) => /^[-+] (Expected|Received) /.test(line))
  return isDiff ? lines.filter((line, index) => index === 0 || /^[-+] /.test(line)) : lines
}

function missingLines(missing: readonly MissingProgram[]): string[] {
  if (missing.length === 0) return []
  const lines = missing.flatMap(({ program, files }) => [
    `skipped without ${program.name} (${program.purpose}): ${files.length} file${files.length === 1 ? '' : 's'}`,
    ...files.map((file) => `  ${file}`),
  ])
  return [...lines, `To run them too: ${installLine(missing.map(({ program }) => program.debianPackage))}`]
}

/** The line that installs Debian packages, for root or for an ordinary user. */
export function installLine(packages: readonly string[]): string {
  const install = `apt-get update && apt-get install -y ${[...new Set(packages)].join(' ')}`
  return process.getuid?.() === 0 ? install : `sudo sh -c '${install}'`
}
