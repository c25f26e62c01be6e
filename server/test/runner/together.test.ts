import { afterAll, afterEach, beforeAll, expect, spyOn, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Closures } from './closure.ts'
import { groupFiles, runGroup } from './together.ts'

let checkout: string
beforeAll(async () => {
  checkout = await mkdtemp(join(tmpdir(), 'tollgate-test-'))
})
afterAll(() => rm(checkout, { recursive: true, force: true }))

/** The lines that the runner prints about groups that it took apart. */
const said = spyOn(console, 'log').mockImplementation(() => {})
afterEach(() => void said.mockClear())
afterAll(() => void said.mockRestore())

test('files of one room run together, and quick ones of all folders, eight at most; those that start something, print seeds or are elsewhere run alone', () => {
  const many = Array.from({ length: 10 }, (_, index) => `server/src/billing/${index + 10}.test.ts`)
  const elsewhere = 'server/test/faults/a.test.ts'
  const texts: Record<string, string> = {
    ...Object.fromEntries([elsewhere, ...many].map((file) => [file, 'new Bun.SQL()'])),
    'server/src/billing/spawns.test.ts': 'Bun.spawn([])',
    'server/src/billing/server.test.ts': "import '../../test/server.ts'",
    'server/test/server.ts': "import { spawn } from 'node:child_process'",
    'server/src/billing/seeds.test.ts': 'console.log(`seeds: 3`)',
    'server/src/http/body.test.ts': "import './transcode.ts'",
    'server/src/http/transcode.ts': 'Bun.spawn([])',
  }
  const imports: Record<string, string> = {
    'server/src/billing/server.test.ts': 'server/test/server.ts',
    'server/src/http/body.test.ts': 'server/src/http/transcode.ts',
  }
  const closures: Closures = {
    of: (path) => new Set([path, ...(imports[path] === undefined ? [] : [imports[path]])]),
    textOf: (path) => texts[path] ?? '',
  }
  const alone = ['spawns', 'server', 'seeds'].map((name) => `server/src/billing/${name}.test.ts`)
  const quick = ['cli/src/quick.test.ts', 'server/src/lib/quick.test.ts']
  const files = [elsewhere, many[0] ?? '', ...alone, 'server/src/http/body.test.ts', ...many.slice(1), ...quick]
  expect(groupFiles(files, closures)).toEqual([
    [elsewhere],
    many.slice(0, 8),
    ...alone.map((file) => [file]),
    ['server/src/http/body.test.ts'],
    many.slice(8),
    quick,
  ])
})

const PASSES = "import { expect, test } from 'bun:test'\ntest('passes', () => expect(1).toBe(1))\n"
const FAILS = "import { expect, test } from 'bun:test'\ntest('fails', () => expect(1).toBe(2))\n"
const CRASHES = "import { test } from 'bun:test'\ntest('crashes', () => process.exit(3))\n"
const LEAVES = `import { spawn } from 'node:child_process'
import { test } from 'bun:test'
test('leaves', async () => {
  const child = spawn('sh', ['-c', 'echo runs; sleep 1000'], { detached: true, stdio: ['ignore', 'pipe', 'ignore'] })
  await new Promise((resolve) => child.stdout.once('data', resolve))
  child.stdout.destroy()
  child.unref()
})
`

/** Runs files as a group, and gives what became of each. */
async function group(texts: Readonly<Record<string, string>>) {
  for (const [name, text] of Object.entries(texts)) await writeFile(join(checkout, `${name}.test.ts`), text)
  let folders = 0
  const files = Object.keys(texts).map((name) => `${name}.test.ts`)
  const options = { checkout, environment: process.env, limitMs: 60_000, graceMs: 100 }
  const folderOf = () => {
    folders += 1
    return join(checkout, `run-${folders}`)
  }
  const runs = await runGroup(files, new Set(), options, folderOf)
  return {
    folders,
    runs: runs.map(({ file, passed, failed }) => [file.replace('.test.ts', ''), passed, failed]).sort(),
  }
}

test('in a group a test that fails is that of its file, and the others pass', async () => {
  expect(await group({ one: PASSES, two: FAILS, three: PASSES })).toEqual({
    folders: 1,
    runs: [
      ['one', 1, 0],
      ['three', 1, 0],
      ['two', 0, 1],
    ],
  })
  expect(said).not.toHaveBeenCalled()
})

test.each([
  ['ends the process', CRASHES, 0],
  ['leaves a process behind', LEAVES, 1],
  ['has no test', '', 0],
])('where a file %s, each runs alone, and that file has failed', async (_, text, passed) => {
  expect(await group({ one: PASSES, two: text, three: PASSES })).toEqual({
    folders: 4,
    runs: [
      ['one', 1, 0],
      ['three', 1, 0],
      ['two', passed, 1],
    ],
  })
  expect(said.mock.calls.flat().join()).toContain('3 files do not run together and run alone: one.test.ts')
})
