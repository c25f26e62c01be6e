/** A module runs in a process of its own: its output comes back, and whatever goes wrong is an error here. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { constants, getPriority, tmpdir } from 'node:os'
import { join } from 'node:path'
import { TurnedClock } from '../../test/clock.ts'
import { runFarBehind } from './farBehind.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'far-behind-'))
})
afterAll(() => rm(folder, { recursive: true }))

async function run(source: string, input = '', clock = new TurnedClock(0)): Promise<string> {
  const file = join(folder, 'module.ts')
  await writeFile(file, source)
  return await runFarBehind(file, input, { clock, runMostMs: 60_000, outputBytesMost: 1_000 })
}

test('it reads the input, sees none of our variables, and writes the output', async () => {
  process.env['CANARY'] = 'secret'
  const source = `const said = { input: await Bun.stdin.text(), canary: process.env.CANARY }
    process.stdout.write(JSON.stringify(said))`
  expect(JSON.parse(await run(source, 'line\nline'))).toEqual({ input: 'line\nline' })
  delete process.env['CANARY']
})

test.if(process.platform === 'linux')('all its threads stand far behind ours', async () => {
  const source = `import { readdirSync, readFileSync } from 'node:fs'
    const stats = readdirSync('/proc/self/task').map((id) => readFileSync('/proc/self/task/' + id + '/stat', 'utf8'))
    process.stdout.write(JSON.stringify(stats.map((stat) => Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16]))))`
  const niceness = Math.min(getPriority(0) + 15, constants.priority.PRIORITY_LOW)
  expect([...new Set(JSON.parse(await run(source)))]).toEqual([niceness])
})

test.each([
  ['fails', 'process.exit(3)', 'the process ended with code 3'],
  ['throws', 'throw new Error("a secret")', 'the process ended with code 1'],
  ['is ended', 'process.kill(process.pid, "SIGKILL")', 'a signal ended the process'],
  ['says too much', 'process.stdout.write("x".repeat(2_000))', 'the program said too much'],
])('a module that %s is an error', async (_, source, words) => {
  await expect(run(source)).rejects.toThrow(words)
})

test('one that takes too long is killed', async () => {
  const clock = new TurnedClock(0)
  const running = run('setInterval(() => {}, 1_000)', '', clock).catch((error: Error) => error.message)
  while (clock.pending === 0) await new Promise((resolve) => setImmediate(resolve))
  await clock.turn(60_000)
  expect(await running).toBe('the program took too long')
})
