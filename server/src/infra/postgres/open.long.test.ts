import { afterEach, expect, test } from 'bun:test'
import { chmod, mkdtemp, readdir, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sleep } from '../../lib/time.ts'
import { systemClock } from '../clock.ts'
import { openClient } from './client.ts'
import type { OpenedDatabase } from './open.ts'
import { openDatabase } from './open.ts'
import { findPostmaster } from './postmaster.ts'

const HELPER = join(import.meta.dirname, '../../../test/openDatabase.ts')

const endings: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end()
})

async function newDataDir(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-open-'))
  await chmod(folder, 0o711)
  endings.push(async () => {
    const left = await findPostmaster(clusterOf(join(folder, 'data'))).catch(() => null)
    if (left !== null) await killAndWait(left.pid)
    await rm(folder, { recursive: true, force: true })
  })
  return join(folder, 'data')
}

function clusterOf(dataDir: string): string {
  return join(dataDir, 'postgres/cluster')
}

async function open(dataDir: string, role: 'server' | 'command'): Promise<OpenedDatabase> {
  return await openDatabase({ dataDir, databaseUrl: null, clock: systemClock, role, log: () => {} })
}

async function killAndWait(pid: number): Promise<void> {
  process.kill(pid, 'SIGKILL')
  while (isAlive(pid)) await sleep(systemClock, 5)
}

/** As an operator finds it: the role is `tollgate`, the password is in the data directory. */
async function superuserUrlOf(dataDir: string, url: string): Promise<string> {
  const at = new URL(url)
  at.username = 'tollgate'
  at.password = (await readFile(join(dataDir, 'postgres/password'), 'utf8')).trim()
  return at.toString()
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** Starts the helper process and waits for its first line. */
async function spawnHelper(dataDir: string, role: 'server' | 'command', task = 'wait') {
  const child = Bun.spawn([process.execPath, HELPER, dataDir, role, task], {
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
  })
  endings.push(async () => {
    child.kill('SIGKILL')
    await child.exited
  })
  const lines = child.stdout.pipeThrough(new TextDecoderStream()).getReader()
  const line = async () => ((await lines.read()).value ?? '').trim()
  return { child, line, first: await line() }
}

test('rows that were written are there after a clean stop and a later start', async () => {
  const dataDir = await newDataDir()
  const first = await open(dataDir, 'server')
  await first.database.query('create table kept as select 7 as x')
  await first.release()
  expect(await findPostmaster(clusterOf(dataDir))).toBeNull()
  const second = await open(dataDir, 'server')
  expect(await second.database.query<{ x: number }>('select x from kept')).toEqual([{ x: 7 }])
  expect(second.url).toBe(first.url)
  await second.release()
}, 60_000)

test('the server listens on a socket only, is durable, and wants a password', async () => {
  const dataDir = await newDataDir()
  const opened = await open(dataDir, 'server')
  const superuser = openClient(await superuserUrlOf(dataDir, opened.url), { maxConnections: 1, clock: systemClock })
  endings.push(() => superuser.close())
  const settings = await superuser.query<{ name: string; setting: string }>(
    `select name, setting from pg_settings where name in
      ('fsync', 'full_page_writes', 'synchronous_commit', 'listen_addresses', 'unix_socket_directories',
       'unix_socket_permissions') order by name`,
  )
  expect(settings.map((row) => `${row.name}=${row.setting}`)).toEqual([
    'fsync=on',
    'full_page_writes=on',
    'listen_addresses=',
    'synchronous_commit=on',
    `unix_socket_directories=${await realpath(clusterOf(dataDir))}`,
    'unix_socket_permissions=0700',
  ])
  const hba = await superuser.query<{ method: string }>('select distinct auth_method as method from pg_hba_file_rules')
  expect(hba).toEqual([{ method: 'scram-sha-256' }])
  await opened.release()
}, 60_000)

test('gateways use a role that owns the database and is no superuser, in databases from before too', async () => {
  const dataDir = await newDataDir()
  const first = await open(dataDir, 'server')
  const roleOf = async ({ database }: OpenedDatabase) => {
    const [role] = await database.query<Record<string, unknown>>(
      `select rolname, rolsuper, rolcreaterole, rolcreatedb, rolreplication,
         pg_has_role(d.datdba, 'member') as is_owner
       from pg_roles r, pg_database d where rolname = current_user and d.datname = current_database()`,
    )
    return role
  }
  const expected = {
    ...{ rolname: 'gateway', rolsuper: false, rolcreaterole: false, rolcreatedb: false, rolreplication: false },
    is_owner: true,
  }
  expect(await roleOf(first)).toEqual(expected)
  for (const text of ["copy (select 1) to program 'true'", "select pg_read_file('PG_VERSION')"]) {
    await expect(first.database.query(text)).rejects.toThrow(/permission denied/)
  }
  // As it was before there was the role: the superuser owns everything.
  const superuser = openClient(await superuserUrlOf(dataDir, first.url), { maxConnections: 1, clock: systemClock })
  await superuser.query(
    `alter database postgres owner to tollgate; create table made (id int primary key) partition by range (id);
     create table made_1 partition of made for values from (0) to (9); create table numbered (id bigserial);
     drop role gateway`,
  )
  await superuser.close()
  await first.release()
  const second = await open(dataDir, 'server')
  expect(await roleOf(second)).toEqual(expected)
  await second.database.query('insert into made values (1); insert into numbered default values')
  await second.database.query('create table made_2 partition of made for values from (10) to (19); drop table made_1')
  await second.release()
}, 60_000)

test('a second server is refused in one sentence that names the data directory, and the first goes on', async () => {
  const dataDir = await newDataDir()
  const first = await open(dataDir, 'server')
  await expect(open(dataDir, 'server')).rejects.toThrow(
    `Another Tollgate server already serves from the data directory ${dataDir};`,
  )
  expect(await first.database.query('select 1 as one')).toEqual([{ one: 1 }])
  await first.release()
  expect(await findPostmaster(clusterOf(dataDir))).toBeNull()
}, 60_000)

test('a command beside a server leaves it running, whoever goes first; the last one stops it', async () => {
  const dataDir = await newDataDir()
  const server = await open(dataDir, 'server')
  const command = await open(dataDir, 'command')
  await command.release()
  expect(await server.database.query('select 1 as one')).toEqual([{ one: 1 }])
  const late = await open(dataDir, 'command')
  await server.release()
  expect(await late.database.query('select 2 as two')).toEqual([{ two: 2 }])
  await late.release()
  expect(await findPostmaster(clusterOf(dataDir))).toBeNull()
}, 60_000)

test('a gateway killed alone leaves a database that the next one adopts at once', async () => {
  const dataDir = await newDataDir()
  const killed = await spawnHelper(dataDir, 'server')
  expect(killed.first).toMatch(/^open \d+$/)
  killed.child.kill('SIGKILL')
  await killed.child.exited
  const next = await spawnHelper(dataDir, 'server')
  expect(next.first).toBe(killed.first)
  next.child.stdin.write('go\n')
  await next.child.stdin.end()
  expect(await next.line()).toBe('released')
  expect(await findPostmaster(clusterOf(dataDir))).toBeNull()
}, 60_000)

test('gateway and database killed together: the next start recovers what was committed', async () => {
  const dataDir = await newDataDir()
  const killed = await spawnHelper(dataDir, 'server')
  const beside = await open(dataDir, 'command')
  await beside.database.query('create table kept as select 8 as x')
  killed.child.kill('SIGKILL')
  await killAndWait(Number(killed.first.split(' ')[1]))
  await beside.release()
  const next = await open(dataDir, 'server')
  expect(await next.database.query<{ x: number }>('select x from kept')).toEqual([{ x: 8 }])
  await next.release()
}, 60_000)

test('a database killed under a running gateway comes back at its address with the ownership held', async () => {
  const dataDir = await newDataDir()
  const server = await open(dataDir, 'server')
  const before = await findPostmaster(clusterOf(dataDir))
  await killAndWait(before?.pid ?? 0)
  for (let answer = null; answer === null; await sleep(systemClock, 20)) {
    answer = await server.database.query('select 1').catch(() => null)
  }
  const after = await findPostmaster(clusterOf(dataDir))
  expect(after).toMatchObject({ port: before?.port, socketFolder: before?.socketFolder })
  expect(after?.pid).not.toBe(before?.pid)
  await expect(open(dataDir, 'server')).rejects.toThrow('Another Tollgate server')
  await server.release()
}, 60_000)

test("a stale postmaster.pid with another living program's id does not stop a start", async () => {
  const dataDir = await newDataDir()
  await (await open(dataDir, 'server')).release()
  const cluster = clusterOf(dataDir)
  // The database's own OS user is the one whose processes PostgreSQL takes for a server of its own.
  const stranger = Bun.spawn(['sleep', '60'])
  endings.push(async () => stranger.kill('SIGKILL'))
  await writeFile(join(cluster, 'postmaster.pid'), `${stranger.pid}\n${cluster}\n1\n5432\n${cluster}\n\n\nready   \n`)
  await writeFile(join(cluster, '.s.PGSQL.5432.lock'), `${stranger.pid}\n${cluster}\n1\n5432\n${cluster}\n`)
  const next = await open(dataDir, 'server')
  expect(await next.database.query('select 1 as one')).toEqual([{ one: 1 }])
  await next.release()
}, 60_000)

test('many processes that come and go share one server, lose nothing, and leave none running', async () => {
  const dataDir = await newDataDir()
  const first = await open(dataDir, 'command')
  await first.database.query('create table worked (pid int)')
  await first.release()
  const rounds = 4
  const workers = 4
  const worker = async () => {
    for (let round = 0; round < rounds; round += 1) {
      const helper = await spawnHelper(dataDir, 'command', 'insert')
      expect(helper.first).toMatch(/^open/)
      expect(await helper.child.exited).toBe(0)
    }
  }
  await Promise.all(Array.from({ length: workers }, worker))
  expect(await findPostmaster(clusterOf(dataDir))).toBeNull()
  const last = await open(dataDir, 'command')
  expect(await last.database.query('select count(*)::int as n from worked')).toEqual([{ n: rounds * workers }])
  await last.release()
}, 120_000)

test('statements, parameters and values never reach the log, not even with errors or a crashed backend', async () => {
  const dataDir = await newDataDir()
  const opened = await open(dataDir, 'server')
  const canary = 'canary-8d1f'
  const { database } = opened
  await database.query('create table secrets (text text unique)')
  const failing: Promise<unknown>[] = [
    database.query('select $1::uuid', [canary]),
    database.query(`select '${canary}'::int`),
    database.query(`select ${canary.slice(0, 6)}_column`),
    database.transaction(async (tx) => {
      await tx.query('insert into secrets values ($1)', [canary])
      await tx.query('insert into secrets values ($1)', [canary])
    }),
    database.query(`select pg_sleep(60), '${canary}'`),
  ]
  const outcomes = Promise.allSettled(failing)
  const [sleeper] = await findSleeper(database)
  await killAndWait(sleeper?.pid ?? 0)
  expect((await outcomes).every((outcome) => outcome.status === 'rejected')).toBe(true)
  await opened.release()
  const folder = join(dataDir, 'postgres')
  const logs = (await readdir(folder)).filter((name) => name.startsWith('server.log'))
  for (const name of logs) {
    const text = await readFile(join(folder, name), 'utf8')
    expect(text).toContain('terminated by signal 9')
    expect(text).not.toContain(canary.slice(0, 6))
  }
}, 60_000)

async function findSleeper(database: OpenedDatabase['database']): Promise<{ pid: number }[]> {
  for (;;) {
    const found = await database.query<{ pid: number }>(
      "select pid from pg_stat_activity where query like 'select pg_sleep%' and pid <> pg_backend_pid()",
    )
    if (found.length > 0) return found
    await sleep(systemClock, 10)
  }
}
