import { afterEach, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { freePort } from '../../../test/freePort.ts'
import { sleep } from '../../lib/time.ts'
import { systemClock } from '../clock.ts'
import { copyBinaries, locateBinaries, programOf } from './binaries.ts'
import { openClient } from './client.ts'
import { identity } from './cluster.ts'
import { startEmbedded } from './embedded.ts'
import { isConnectionFailure } from './faults.ts'
import { resolveCluster } from './home.ts'
import { findPostmaster } from './postmaster.ts'

const folders: string[] = []
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true })
})

async function newFolder(mode: number): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-embedded-'))
  await chmod(folder, mode)
  folders.push(folder)
  return folder
}

async function answerOf(url: string): Promise<unknown> {
  const database = openClient(url, { maxConnections: 1, clock: systemClock })
  try {
    return await database.query('select 1 as one')
  } finally {
    await database.close()
  }
}

const isRoot = process.getuid?.() === 0

test.if(isRoot)(
  "as root, a data directory that the database's user can't reach keeps its database elsewhere",
  async () => {
    const unreachable = await newFolder(0o700)
    const rootHome = join(await newFolder(0o755), 'lib')
    const dataDir = join(unreachable, 'data')
    const said: string[] = []
    const options = { dataDir, rootHome, clock: systemClock, log: (message: string) => said.push(message) }
    const first = await startEmbedded(options)
    expect(await answerOf(first.url)).toEqual([{ one: 1 }])
    await first.stop()
    const home = (await readFile(join(dataDir, 'postgres/location'), 'utf8')).trim()
    expect(home.startsWith(rootHome)).toBe(true)
    expect(said).toEqual([expect.stringContaining(`the database is kept in ${home}`)])
    const second = await startEmbedded(options)
    expect(await answerOf(second.url)).toEqual([{ one: 1 }])
    await second.stop()
    expect(said).toHaveLength(1)
    await rm(home, { recursive: true })
    await expect(startEmbedded(options)).rejects.toThrow('which does not exist')
  },
  60_000,
)

test('binaries are copied whole, once, also when several start at the same time', async () => {
  const parent = join(await newFolder(0o755), 'binaries')
  const original = await locateBinaries()
  const copies = await Promise.all([1, 2, 3].map(() => copyBinaries(original, parent)))
  const [first] = copies
  expect(new Set(copies.map((copy) => copy.folder)).size).toBe(1)
  expect(await readdir(parent)).toHaveLength(1)
  expect((await readdir(first?.folder ?? '', { recursive: true })).sort()).toEqual(
    (await readdir(original.folder, { recursive: true })).sort(),
  )
}, 60_000)

test('the password is kept in a file that only its owner reads', async () => {
  const dataDir = join(await newFolder(0o711), 'data')
  const server = await startEmbedded({ dataDir, clock: systemClock, log: () => {}, throwAway: true })
  const found = await stat(join(dataDir, 'postgres/password'))
  expect(found.mode & 0o777).toBe(0o600)
  const wrong = new URL(server.url)
  wrong.password = 'wrong'
  await expect(answerOf(wrong.toString())).rejects.toThrow('password authentication failed')
  await server.stop()
}, 60_000)

test('there is no port, and only the database’s own user may enter the folder of the socket', async () => {
  const dataDir = join(await newFolder(0o711), 'data')
  const server = await startEmbedded({ dataDir, clock: systemClock, log: () => {}, throwAway: true })
  const folder = new URL(server.url).searchParams.get('host') ?? ''
  expect((await stat(folder)).mode & 0o777).toBe(0o700)
  expect((await stat(join(folder, '.s.PGSQL.5432'))).isSocket()).toBe(true)
  const database = openClient(server.url, { maxConnections: 1, clock: systemClock })
  expect(await database.query("select current_setting('listen_addresses') as ports")).toEqual([{ ports: '' }])
  await database.close()
  await server.stop()
  // Nobody listens where the server was, and nobody else can.
  expect(isConnectionFailure(await answerOf(server.url).catch((error: unknown) => error))).toBe(true)
}, 60_000)

test('a data directory whose path is too long for a socket has it in a short folder of the same user', async () => {
  const dataDir = join(await newFolder(0o711), 'long'.repeat(25), 'data')
  await mkdir(dirname(dataDir), { mode: 0o711 })
  const options = { dataDir, clock: systemClock, log: () => {}, throwAway: true }
  const first = await startEmbedded(options)
  const folder = new URL(first.url).searchParams.get('host') ?? ''
  expect(folder).toMatch(/^\/tmp\/tollgate-[0-9a-f]{16}$/)
  const cluster = await stat(join(dataDir, 'postgres/cluster'))
  expect(await stat(folder)).toMatchObject({ uid: cluster.uid, gid: cluster.gid, mode: cluster.mode })
  expect(await answerOf(first.url)).toEqual([{ one: 1 }])
  await first.stop()
  expect(existsSync(folder)).toBe(false)
  // Somebody else was there first.
  await mkdir(folder, { mode: 0o777 })
  await chmod(folder, 0o777)
  await expect(startEmbedded(options)).rejects.toThrow(`${folder}, where the socket of the database`)
  await rm(folder, { recursive: true })
  const second = await startEmbedded(options)
  expect(second.url).toBe(first.url)
  await second.stop()
}, 60_000)

test('a server from before there was a socket, which runs on, is adopted by its port', async () => {
  const dataDir = join(await newFolder(0o711), 'data')
  const options = { dataDir, clock: systemClock, log: () => {}, throwAway: true }
  const socketed = await startEmbedded(options)
  await socketed.stop()
  const port = await freePort()
  const { folder, binaries, user } = await resolveCluster(dataDir, '/var/lib/tollgate', () => {})
  const settings = ['listen_addresses=127.0.0.1', 'unix_socket_directories='].flatMap((setting) => ['-c', setting])
  const child = Bun.spawn([programOf(binaries, 'postgres'), '-D', folder, '-p', String(port), ...settings], {
    ...identity(user),
    stdio: ['ignore', 'ignore', 'ignore'],
  })
  while (!(await findPostmaster(folder))?.ready) await sleep(systemClock, 5)
  const adopted = await startEmbedded(options)
  expect([adopted.adopted, new URL(adopted.url).host]).toEqual([true, `127.0.0.1:${port}`])
  expect(await answerOf(adopted.url)).toEqual([{ one: 1 }])
  await adopted.stop()
  await child.exited
  // The next start has the socket; who still uses the port is told.
  const next = await startEmbedded(options)
  expect(next.url).toBe(socketed.url)
  await expect(adopted.ensureRunning()).rejects.toThrow('listens at another address now')
  await next.stop()
}, 60_000)

test('a cluster that PostgreSQL refuses says why, in its own words', async () => {
  const dataDir = join(await newFolder(0o711), 'data')
  const options = { dataDir, clock: systemClock, log: () => {}, throwAway: true }
  await (await startEmbedded(options)).stop()
  await rm(join(dataDir, 'postgres/cluster/global/pg_control'))
  await expect(startEmbedded(options)).rejects.toThrow(/PostgreSQL did not start on .*pg_control/s)
}, 60_000)

test('of several first starts at the same time one makes the cluster, and all use it', async () => {
  const dataDir = join(await newFolder(0o711), 'data')
  const options = { dataDir, clock: systemClock, log: () => {}, throwAway: true }
  const servers = await Promise.all([1, 2, 3].map(() => startEmbedded(options)))
  expect(new Set(servers.map((server) => server.url)).size).toBe(1)
  expect(servers.filter((server) => !server.adopted)).toHaveLength(1)
  expect((await readdir(join(dataDir, 'postgres'))).filter((name) => name.includes('.new-'))).toEqual([])
  await servers[0]?.stop()
}, 60_000)
