/** Calls whose engine's process dies under them. In real time: processes are killed and started. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import '../../../test/ggufEngine.ts'
import { ask, openAnswer, QUIET, readAnswer } from '../../../test/ggufAnswer.ts'
import { writeTinyGguf } from '../../../test/tinyGguf.ts'
import { systemClock } from '../../infra/clock.ts'
import { startGguf } from './supervise.ts'

let folder: string
let file: string

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'gguf-'))
  file = writeTinyGguf(join(folder, 'tiny.gguf'))
})

afterAll(() => rmSync(folder, { recursive: true, force: true }))

test('an engine killed in mid-answer breaks that answer off, and the next call is served after the restart', async () => {
  const errors: string[] = []
  const log = { ...QUIET, error: (_: object, message: string) => errors.push(message) }
  const engine = startGguf({ file, sequences: 1, threads: 1, gpu: 'none', clock: systemClock, log })
  for (let round = 1; round <= 3; round += 1) {
    const answer = openAnswer(await ask(await engine.address()))
    await answer.next()
    process.kill(engine.pid as number, 'SIGKILL')
    const rest = async () => {
      while ((await answer.next()) !== null);
    }
    await rest().catch(() => {})
    expect(answer.isDone).toBe(false)
    while (engine.state === 'ready') await new Promise((resolve) => setImmediate(resolve))
    expect((await readAnswer(await ask(await engine.address(), { max_tokens: 8 }))).text).toHaveLength(8)
    expect(errors).toHaveLength(round)
  }
  await engine.close()
}, 30_000)

test('a file that is no model is refused loudly, again and again with pauses, and can be closed', async () => {
  const lines: string[] = []
  const log = { ...QUIET, info: (fields: object) => lines.push(JSON.stringify(fields)) }
  const engine = startGguf({ file: join(folder, 'none.gguf'), sequences: 1, gpu: 'none', clock: systemClock, log })
  await expect(engine.address(2_000)).rejects.toThrow('restarting')
  expect(lines.join()).toContain("the model can't be loaded")
  await engine.close()
}, 30_000)

test('signals that mean the gateway, and reach the whole group, do not end the engine under its calls', async () => {
  const engine = startGguf({ file, sequences: 1, threads: 1, gpu: 'none', clock: systemClock, log: QUIET })
  const answer = openAnswer(await ask(await engine.address()))
  await answer.next()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.kill(engine.pid as number, signal)
  while ((await answer.next()) !== null);
  expect(answer.isDone).toBe(true)
  await engine.close()
  expect(engine.pid).toBeNull()
}, 30_000)

test('the engine ends when its parent is killed', async () => {
  const script = `
    const { startGguf } = await import(${JSON.stringify(new URL('./supervise.ts', import.meta.url).href)})
    const { systemClock } = await import(${JSON.stringify(new URL('../../infra/clock.ts', import.meta.url).href)})
    const log = { debug() {}, info() {}, warn() {}, error() {} }
    const engine = startGguf({ file: ${JSON.stringify(file)}, sequences: 1, gpu: 'none', clock: systemClock, log })
    await engine.address()
    process.stdout.write(String(engine.pid) + '\\n')
  `
  const parent = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] })
  const pid = Number(await new Promise((resolve) => parent.stdout.once('data', resolve)))
  const isAlive = () => {
    try {
      return process.kill(pid, 0)
    } catch {
      return false
    }
  }
  expect(isAlive()).toBe(true)
  parent.kill('SIGKILL')
  for (let tries = 0; tries < 100 && isAlive(); tries += 1) await new Promise((resolve) => setTimeout(resolve, 50))
  expect(isAlive()).toBe(false)
}, 30_000)
