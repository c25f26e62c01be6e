import { join } from 'node:path'
import { TEST_LIMIT_MS } from './runFile.ts'

const CHECKOUT = join(import.meta.dirname, '../../..')

/** Runs a command in the checkout, to its end. `said`: everything that it wrote. */
export async function runCommand(
  command: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<{ readonly code: number; readonly said: string }> {
  const child = Bun.spawn([...command], {
    cwd: CHECKOUT,
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [stdout, stderr, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { code, said: `${stdout}${stderr}`.trim() }
}

/** The command that runs test files in one process; it prints the failed tests alone. */
export function testCommand(files: readonly string[]): string[] {
  const options = ['--only-failures', `--timeout=${TEST_LIMIT_MS}`]
  return [process.execPath, 'test', ...options, ...files.map((file) => `./${file}`)]
}
