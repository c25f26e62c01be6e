import { expect, test } from 'bun:test'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loginFileOf } from './loginFile.ts'

test('the look whether a login can be kept leaves nothing behind, and fails where a write would', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-logins-'))
  const file = loginFileOf({ XDG_CONFIG_HOME: folder }, 'linux')
  await file.write('{}')
  await file.check()
  expect([await file.read(), await readdir(join(folder, 'tollgate'))]).toEqual(['{}', ['logins.json']])
  await writeFile(join(folder, 'taken'), '')
  const lost = loginFileOf({ XDG_CONFIG_HOME: join(folder, 'taken') }, 'linux')
  expect(lost.check()).rejects.toThrow('set XDG_CONFIG_HOME to a folder that you may write to')
  await rm(folder, { recursive: true })
})
