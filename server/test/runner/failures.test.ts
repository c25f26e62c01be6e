import { expect, test } from 'bun:test'
import { commandOf, readReports, seedOf } from './failures.ts'

const REPORT = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="bun test" tests="4" assertions="1" failures="2" skipped="1" time="0.1">
  <testsuite name="b.test.ts" file="b.test.ts" tests="4" failures="2" skipped="1" time="0.25" hostname="vm">
    <testsuite name="outer" file="b.test.ts" tests="1" failures="1">
      <testsuite name="in &lt;ner&gt; &quot;q&quot;" file="b.test.ts" tests="1" failures="1">
        <testcase name="it&apos;s &amp; bad" classname="in &gt; outer" time="0.1" file="b.test.ts">
          <failure type="AssertionError" message="Expected: 1&#10;Received: 2">AssertionError: &lt;testcase&gt;</failure>
        </testcase>
      </testsuite>
    </testsuite>
    <testcase name="hangs" classname=""><failure type="TimeoutError" message="test timed out" /></testcase>
    <testcase name="later" classname=""><skipped /></testcase>
    <testcase name="passes" classname="" time="0" />
  </testsuite>
  <testsuite name="c.test.ts" file="c.test.ts" tests="1" failures="0" skipped="0" time="1.5" hostname="vm">
    <testcase name="passes" classname="" time="0" />
  </testsuite>
</testsuites>`

test('a report tells of each file which tests failed, with their describes, and why', () => {
  expect(readReports(REPORT)).toEqual([
    {
      file: 'b.test.ts',
      seconds: 0.25,
      passed: 1,
      failed: 2,
      skipped: 1,
      failures: [
        { name: ['outer', 'in <ner> "q"', "it's & bad"], message: 'Expected: 1\nReceived: 2' },
        { name: ['hangs'], message: 'test timed out' },
      ],
    },
    { file: 'c.test.ts', seconds: 1.5, passed: 1, failed: 0, skipped: 0, failures: [] },
  ])
})

test('a text that is no report has no files', () => {
  expect(readReports('')).toEqual([])
})

test.each([
  ['seed 77: it went wrong', 77],
  ['+ seed: 77', 77],
  ['+   "seed": 77,', 77],
  ['77 seeds', null],
])('the seed of %p is %p', (message, seed) => {
  expect(seedOf({ name: ['it'], message })).toBe(seed)
})

test.each([
  ['a.test.ts', ['outer', "it's (1 + 1)"], 'wrong', "npx bun test ./a.test.ts -t '^outer it'\\''s \\(1 \\+ 1\\)$'"],
  ['a.test.ts', [], 'wrong', 'npx bun test ./a.test.ts'],
  ['a.test.ts', ['hooks', '(unnamed)'], 'wrong', 'npx bun test ./a.test.ts'],
  ['a.test.ts', ['it'], 'seed 5: wrong', "npx bun test ./a.test.ts -t '^it$'"],
  ['a.long.test.ts', ['it'], 'seed 5: wrong', "TOLLGATE_FIRST_SEED=5 npx bun test ./a.long.test.ts -t '^it$'"],
  ['a.long.test.ts', ['it'], 'seed 5 fails: x (again: bun run.ts --seed 5)', 'bun run.ts --seed 5'],
])('the command for %s, %p, %p', (file, name, message, command) => {
  expect(commandOf(file, { name, message })).toBe(command)
})
