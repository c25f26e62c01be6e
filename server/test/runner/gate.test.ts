/** The gate itself, on files made for it: what it repeats, what it lets pass, and what its end says. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runGate } from './gate.ts'
import { endLeftovers } from './leftovers.ts'
import { runFile } from './runFile.ts'
import { summarize } from './summary.ts'

let checkout: string
beforeAll(async () => {
  checkout = await mkdtemp(join(tmpdir(), 'tollgate-test-'))
})
afterAll(() => rm(checkout, { recursive: true, force: true }))

const IMPORT = "import { expect, test } from 'bun:test'\nimport { appendFileSync, readFileSync } from 'node:fs'\n"
const PASSES = `${IMPORT}test('passes', () => expect(1).toBe(1))\n`
const FAILS = `${IMPORT}test('always (fails)', () => {
  for (let line = 0; line < 500; line += 1) console.log('much output')
  expect({ seed: 77, answer: 41 }).toEqual({ seed: 77, answer: 42 })
})\n`

/** Fails at its first `times` runs. */
function failsAtFirst(name: string, times: number): string {
  return `${IMPORT}test('fails at first', () => {
  const file = ${JSON.stringify(join(checkout, `${name}.tries`))}
  appendFileSync(file, 'x')
  expect(readFileSync(file, 'utf8').length).toBeGreaterThan(${times})
})\n`
}

/** Runs the files as `npm test` does, and gives the number of runs of each, and the end of what is printed. */
async function gate(texts: Readonly<Record<string, string>>, limitMs = 60_000) {
  for (const [name, text] of Object.entries(texts)) await writeFile(join(checkout, `${name}.test.ts`), text)
  const tries: Record<string, number> = {}
  let started = 0
  const outcome = await runGate(
    Object.keys(texts).map((name) => [`${name}.test.ts`]),
    {
      atOnce: 2,
      async run([file = '']) {
        started += 1
        const folder = join(checkout, `run-${started}`)
        return [await runFile(file, new Set(), { checkout, folder, environment: process.env, limitMs, graceMs: 100 })]
      },
      report: (run, count) => {
        tries[run.file.replace('.test.ts', '')] = count
      },
    },
  )
  const { lines, passed } = summarize({ ...outcome, missing: [], seconds: 1, mayNotSkip: true })
  return { tries, passed, lines: lines.join('\n').split('\n') }
}

test('a file that always fails runs three times, and the last 60 lines say why and how to repeat it', async () => {
  const { tries, passed, lines } = await gate({ good: PASSES, bad: FAILS })
  expect([passed, tries]).toEqual([false, { good: 1, bad: 3 }])
  const end = lines.slice(-60).join('\n')
  expect(end).toContain('FAILED: bad.test.ts: always (fails) (seed 77)')
  expect(end).toMatch(/- {3}"answer": 42,\n.*\+ {3}"answer": 41,/)
  expect(end).toContain(`again: npx bun test ./bad.test.ts -t '^always \\(fails\\)$'`)
  expect(lines.at(-1)).toBe('1 passed, 1 failed, 0 skipped')
})

test('a file that fails once passes, and is named as unstable with its first output', async () => {
  const { tries, passed, lines } = await gate({ good: PASSES, once: failsAtFirst('once', 1) })
  expect([passed, tries]).toEqual([true, { good: 1, once: 2 }])
  expect(lines).toContain('UNSTABLE: once.test.ts: fails at first (passed at try 2)')
  expect(lines.join('\n')).toContain('expect(received).toBeGreaterThan(expected)')
  expect(lines).toContain('1 unstable: find out whether the code or the test is wrong')
})

test('a file that fails twice passes at the third try', async () => {
  const { tries, passed, lines } = await gate({ twice: failsAtFirst('twice', 2) })
  expect([passed, tries]).toEqual([true, { twice: 3 }])
  expect(lines).toContain('UNSTABLE: twice.test.ts: fails at first (passed at try 3)')
})

test('of more than three failed files none is repeated', async () => {
  const names = ['one', 'two', 'three', 'four']
  const { tries, passed, lines } = await gate(Object.fromEntries(names.map((name) => [name, failsAtFirst(name, 1)])))
  expect([passed, tries]).toEqual([false, { one: 1, two: 1, three: 1, four: 1 }])
  for (const name of names) expect(lines.slice(-60).join('\n')).toContain(`FAILED: ${name}.test.ts: fails at first`)
})

test('many failures still fit into the last 60 lines', async () => {
  const many = `${IMPORT}test.each(Array.from({ length: 40 }, (_, index) => index))('number %p', (index) => expect(index).toBe(-1))\n`
  const { lines } = await gate({ many, bad: FAILS })
  const firstOfThem = lines.findIndex((line) => line.startsWith('FAILED'))
  expect(lines.length - firstOfThem).toBeLessThanOrEqual(60)
  expect(lines.join('\n')).toMatch(/and \d+ more failures in \d files?/)
})

test('a file that hangs is ended at its limit, and not repeated', async () => {
  const hangs = `${IMPORT}test('hangs', () => new Promise(() => {}), 600_000)\n`
  const { tries, passed, lines } = await gate({ hangs }, 1_000)
  expect([passed, tries]).toEqual([false, { hangs: 1 }])
  expect(lines.join('\n')).toContain('ended after 1 s: a test hangs')
})

test('a file that leaves a process behind fails, and the process is ended', async () => {
  // It waits until the process runs: one that is only being started has no environment to be known by.
  const leaves = `import { test } from 'bun:test'
import { spawn } from 'node:child_process'
test('leaves', async () => {
  const child = spawn('sh', ['-c', 'echo runs; sleep 1000'], { detached: true, stdio: ['ignore', 'pipe', 'ignore'] })
  await new Promise((resolve) => child.stdout.once('data', resolve))
  child.unref()
})\n`
  const { passed, lines } = await gate({ leaves })
  expect(passed).toBe(false)
  expect(lines.slice(-60).join('\n')).toMatch(/left processes behind; end them in afterAll:\n.*sleep 1000/)
})

test('a process of a folder whose name begins alike is not taken for one that was left behind', async () => {
  const folder = join(checkout, 'run')
  const other = Bun.spawn(['sleep', '1000'], { env: { ...process.env, TMPDIR: `${folder}1` } })
  expect(await endLeftovers(folder, 0)).toEqual([])
  expect(await endLeftovers(`${folder}1`, 0)).toEqual(['sleep 1000 '])
  await other.exited
})
