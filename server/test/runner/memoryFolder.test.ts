import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { mayHoldRun } from './memoryFolder.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tollgate-test-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

test('a folder with room in which programs start may hold a run, and nothing is left in it', async () => {
  expect(mayHoldRun(folder, 1)).toBe(true)
  expect(await readdir(folder)).toEqual([])
})

test('a folder that is short of room, or that is not there, may not', () => {
  expect(mayHoldRun(folder, Number.MAX_SAFE_INTEGER)).toBe(false)
  expect(mayHoldRun(join(folder, 'nothing'), 1)).toBe(false)
})
