/**
 * `npm run test:quick`, for the minutes between two edits: types, lint, and every test that starts no process and no
 * database, side by side. Prints nothing of a step but its last line, unless the step fails.
 */

import { join } from 'node:path'
import { findTests, readClosures } from './runner/closure.ts'
import { chooseQuick } from './runner/quick.ts'

const CHECKOUT = join(import.meta.dirname, '../..')

async function step(name: string, command: readonly string[]): Promise<boolean> {
  const [program = '', ...words] = command
  const child = Bun.spawn([program, ...words], {
    cwd: CHECKOUT,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [stdout, stderr, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  const said = `${stdout}${stderr}`.trim()
  if (code !== 0) console.log(`FAILED: ${name}\n${said}\n`)
  else console.log(`${name}: ${said.split('\n').at(-1) || 'passed'}`)
  return code === 0
}

// Types of these packages are checked too.
await import('./install.ts')
const files = chooseQuick(await findTests(CHECKOUT, { long: false }), readClosures(CHECKOUT))
const tools = join(CHECKOUT, 'node_modules/.bin')
const passed = await Promise.all([
  step('types of the server', [join(tools, 'tsc'), '-p', 'server']),
  step('types of the command line', [join(tools, 'tsc'), '-p', 'cli']),
  step('types of its package', [join(tools, 'tsc'), '-p', 'cli/src']),
  step('lint', [join(tools, 'biome'), 'ci', '--error-on-warnings', '.']),
  step('tests', [process.execPath, 'test', '--only-failures', ...files.map((file) => `./${file}`)]),
])
process.exit(passed.every(Boolean) ? 0 : 1)
