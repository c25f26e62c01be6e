/**
 * Checks that need no service, side by side. Prints nothing of a step but its last line, unless the step fails:
 *
 * - `check.ts`: `npm run check`: types, lint, dead code, the rules of the house.
 * - `check.ts --tests`: `npm run test:quick`, for the minutes between two edits: types, lint, and every test that starts no
 *   process and no database, the rules of the house among them.
 */

import { join } from 'node:path'
import { findTests, readClosures } from './runner/closure.ts'
import { runCommand, testCommand } from './runner/command.ts'
import { chooseQuick } from './runner/quick.ts'

const CHECKOUT = join(import.meta.dirname, '../..')
const TOOLS = join(CHECKOUT, 'node_modules/.bin')
const RULES_OF_THE_HOUSE = ['tidy', 'tidyLists', 'rules'].map((name) => `server/test/${name}.test.ts`)

async function step(name: string, command: readonly string[]): Promise<boolean> {
  const { code, said } = await runCommand(command)
  if (code !== 0) console.log(`FAILED: ${name}\n${said}\n`)
  else console.log(`${name}: ${said.split('\n').at(-1) || 'passed'}`)
  return code === 0
}

const tool = (name: string, program: string, ...words: string[]) => step(name, [join(TOOLS, program), ...words])
const BIOME = join(import.meta.dirname, 'node_modules/.bin/biome')
const tests = (name: string, files: readonly string[]) => step(name, testCommand(files))

const isQuick = process.argv[2] === '--tests'
// Types of these packages are checked too, and the linter is one of them.
await import('./install.ts')
const passed = await Promise.all([
  tool('types', 'tsc', '-p', '.'),
  tool('types of the package of the command line', 'tsc', '-p', 'cli/src'),
  step('lint', [BIOME, 'ci', '--colors=off', '--error-on-warnings', '.']),
  isQuick
    ? tests('tests', chooseQuick(await findTests(CHECKOUT, { long: false }), readClosures(CHECKOUT)))
    : tests('rules of the house', RULES_OF_THE_HOUSE),
  ...(isQuick ? [] : [tool('dead code', 'knip')]),
])
process.exit(passed.every(Boolean) ? 0 : 1)
