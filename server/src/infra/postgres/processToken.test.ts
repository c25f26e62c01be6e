import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { keepToken, newToken, readDeadToken } from './processToken.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tollgate-token-'))
})
afterAll(() => rm(folder, { recursive: true }))

const file = () => join(folder, 'process.json')
const kept = async () => JSON.parse(await readFile(file(), 'utf8')) as Record<string, unknown>
const change = async (fields: Record<string, unknown>) =>
  writeFile(file(), JSON.stringify({ ...(await kept()), ...fields }))

test('the token of a process that lives, or whose end can not be seen from here, is not told', async () => {
  expect(await readDeadToken(folder)).toBeNull()
  await keepToken(folder, newToken())
  expect(await readDeadToken(folder)).toBeNull()
  const { pid } = Bun.spawnSync(['true'])
  await change({ pid, place: 'another machine' })
  expect(await readDeadToken(folder)).toBeNull()
})

test('the token of a process that has ended is told, also when another process has its id by now', async () => {
  const token = newToken()
  await keepToken(folder, token)
  const { pid } = Bun.spawnSync(['true'])
  await change({ pid })
  expect(await readDeadToken(folder)).toBe(token)
  if (process.platform === 'linux') {
    await change({ pid: process.pid, startedAt: '1' })
    expect(await readDeadToken(folder)).toBe(token)
  }
})

test.each(['', '{', 'null', '{}', '{"token":"% or 1","pid":1}'])('a file that says %p tells nothing', async (text) => {
  await writeFile(file(), text)
  expect(await readDeadToken(folder)).toBeNull()
})
