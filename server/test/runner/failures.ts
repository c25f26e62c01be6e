/** Reads which tests of a file failed, and why, from the JUnit report that `bun test` writes. */

export interface Failure {
  /** The test's name with those of the `describe`s around it, outermost first. Empty: the file as a whole. */
  readonly name: readonly string[]
  /** The error's message: expected and received, for an assertion. */
  readonly message: string
}

export interface Report {
  /** As the report has it: from where the tests run, such as `server/src/identity/keys/key.test.ts`. */
  readonly file: string
  readonly seconds: number
  readonly passed: number
  readonly failed: number
  readonly skipped: number
  readonly failures: readonly Failure[]
}

const TAG = /<(\/?)(testsuites|testsuite|testcase|failure|skipped)\b([^>]*?)(\/?)>/g

/** Reads the text of a report: one for each file that ran. Empty for a text that is no report, such as that of a process that crashed. */
export function readReports(xml: string): Report[] {
  const reports: (Omit<Report, 'failures'> & { readonly failures: Failure[] })[] = []
  const names: string[] = []
  for (const [, closes, tag, attributes = '', empty] of xml.matchAll(TAG)) {
    if (tag === 'testsuites') continue
    if (closes !== '') {
      if (tag !== 'failure') names.pop()
      continue
    }
    // The first name is the file's.
    if (tag === 'testsuite' && names.length === 0) {
      const [file, seconds] = [attribute(attributes, 'name'), Number(attribute(attributes, 'time'))]
      reports.push({ file, seconds, passed: 0, failed: 0, skipped: 0, failures: [] })
    }
    count(reports.at(-1), tag, names, attributes)
    if ((tag === 'testsuite' || tag === 'testcase') && empty === '') names.push(attribute(attributes, 'name'))
  }
  return reports
}

/** Counts a test as passed when it begins, and otherwise when that is said. */
function count(
  report: { passed: number; failed: number; skipped: number; readonly failures: Failure[] } | undefined,
  tag: string | undefined,
  names: readonly string[],
  attributes: string,
): void {
  if (report === undefined) return
  if (tag === 'testcase') report.passed += 1
  if (tag !== 'skipped' && tag !== 'failure') return
  report.passed -= 1
  if (tag === 'skipped') report.skipped += 1
  else {
    report.failed += 1
    report.failures.push({ name: names.slice(1), message: attribute(attributes, 'message') })
  }
}

const ENTITIES: Readonly<Record<string, string>> = { lt: '<', gt: '>', quot: '"', apos: "'", amp: '&' }

function attribute(attributes: string, name: string): string {
  const value = new RegExp(`\\b${name}="([^"]*)"`).exec(attributes)?.[1] ?? ''
  return value.replace(/&(?:#(\d+)|(\w+));/g, (whole, code: string | undefined, entity: string | undefined) =>
    code === undefined ? (ENTITIES[entity ?? ''] ?? whole) : String.fromCodePoint(Number(code)),
  )
}

/** The seed that a failed test names: `seed 77`, `seed: 77`, `"seed": 77`. */
export function seedOf({ name, message }: Failure): number | null {
  const found = /\bseed"?[ :]{1,2}(\d+)/i.exec(message) ?? /\bseed"?[ :]{1,2}(\d+)/i.exec(name.join(' '))
  return found === null ? null : Number(found[1])
}

/** The command that repeats just this test, to be typed at the checkout's root. */
export function commandOf(file: string, failure: Failure): string {
  // A suite that has a program for one seed names it itself, after "again:".
  const own = /\(?again: ([^)\n"]+)/.exec(failure.message)?.[1]
  if (own !== undefined) return own.trim()
  const seed = seedOf(failure)
  const fresh = file.endsWith('.long.test.ts') && seed !== null ? `${FIRST_SEED_VARIABLE}=${seed} ` : ''
  const pattern = failure.name.join(' ').replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
  const only = failure.name.length === 0 || failure.name.includes('(unnamed)') ? '' : ` -t ${quote(`^${pattern}$`)}`
  return `${fresh}npx bun test ./${file}${only}`
}

/** Names the first seed that a suite of `test:long` tries, in place of one of the day (`server/test/seeds.ts`). */
export const FIRST_SEED_VARIABLE = 'TOLLGATE_FIRST_SEED'

/** One word for a shell. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
