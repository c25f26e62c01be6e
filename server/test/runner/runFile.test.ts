import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runFile } from './runFile.ts'

let checkout: string
beforeAll(async () => {
  checkout = await mkdtemp(join(tmpdir(), 'tollgate-test-'))
})
afterAll(() => rm(checkout, { recursive: true, force: true }))

const IMPORT = "import { expect, test } from 'bun:test'\n"

test.each([
  ['no test', 'export {}\n', [0, 1, 0], /has no test in it/],
  ['nothing', '', [0, 1, 0], /has no test in it/],
  ['a test that passes', `${IMPORT}test('it', () => expect(1).toBe(1))\n`, [1, 0, 0], /^(?!.*has no test)/s],
  ['a test that fails', `${IMPORT}test('it', () => expect(1).toBe(2))\n`, [0, 1, 0], /^(?!.*has no test)/s],
  ['a test that is skipped', `${IMPORT}test.skip('it', () => expect(1).toBe(2))\n`, [0, 0, 1], /^(?!.*has no test)/s],
  ['what can not be loaded', "throw new Error('broken')\n", [0, 1, 0], /broken/],
] as const)('a file with %s', async (name, text, counts, says) => {
  const file = `${name.replaceAll(' ', '-')}.test.ts`
  await writeFile(join(checkout, file), text)
  const options = { checkout, folder: join(checkout, 'run'), environment: process.env, limitMs: 60_000 }
  const { passed, failed, skipped, output } = await runFile(file, new Set(), options)
  expect([passed, failed, skipped]).toEqual([...counts])
  expect(output).toMatch(says)
})
