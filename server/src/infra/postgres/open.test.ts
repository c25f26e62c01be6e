import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { FreshDatabase } from '../../../test/postgres.ts'
import { freshDatabase } from '../../../test/postgres.ts'
import { systemClock } from '../clock.ts'
import { openDatabase } from './open.ts'

let fresh: FreshDatabase
let folder: string

beforeAll(async () => {
  fresh = await freshDatabase()
  folder = await mkdtemp(join(tmpdir(), 'tollgate-open-'))
})
afterAll(async () => {
  await fresh.drop()
  await rm(folder, { recursive: true })
})

function open(name: string, role: 'server' | 'command') {
  const dataDir = join(folder, name)
  return openDatabase({ dataDir, databaseUrl: fresh.url, clock: systemClock, role, log: () => {} })
}

test('with a database of the operator, too, one server has a data directory; others and commands may share the database', async () => {
  const first = await open('one', 'server')
  expect(first.embedded).toBe(false)
  await expect(open('one', 'server')).rejects.toThrow(`data directory ${join(folder, 'one')};`)
  const [elsewhere, command] = await Promise.all([open('two', 'server'), open('one', 'command')])
  expect(await command.database.query('select 1 as one')).toEqual([{ one: 1 }])
  await Promise.all([first.release(), elsewhere.release(), command.release()])
  const next = await open('one', 'server')
  await next.release()
})

test('the server itself ends a read after 5 s, and nothing else before 30 s', async () => {
  const opened = await open('reading', 'server')
  const timeouts = await Promise.all(
    [opened.reads, opened.database].map((pool) => pool.query("select current_setting('statement_timeout') as timeout")),
  )
  expect(timeouts).toEqual([[{ timeout: '5s' }], [{ timeout: '30s' }]])
  await opened.release()
})
