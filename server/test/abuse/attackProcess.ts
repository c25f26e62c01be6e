/**
 * Carries out one attack in a process of its own, so that its work is not measured as its victim's:
 * `bun attackProcess.ts NAME`. Its standard input has the target as JSON and ends when the attack must; it then prints the
 * answers by status as JSON.
 */

import type { Target } from './attack.ts'
import { loadAttack } from './loadAttacks.ts'

/** Chunks of input until the first line is whole. */
async function readTarget(lines: AsyncIterator<string>): Promise<Target> {
  const { value } = await lines.next()
  return JSON.parse(value ?? 'null')
}

const attack = await loadAttack(process.argv[2] ?? '')
const lines = console[Symbol.asyncIterator]()
const target = await readTarget(lines)
const ending = new AbortController()
void lines.next().then(() => ending.abort())
// Connections that the server resets are part of an attack.
process.on('uncaughtException', (error) => process.stderr.write(`${attack.name}: ${error}\n`))
const byStatus = await attack.run(target, ending.signal)
process.stdout.write(`${JSON.stringify(Object.fromEntries(byStatus))}\n`, () => process.exit(0))
