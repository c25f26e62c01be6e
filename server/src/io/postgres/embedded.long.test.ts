import { afterEach, expect, test } from 'bun:test'
import { chmod, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../clock.ts'
import { copyBinaries, locateBinaries } from './binaries.ts'
import { openClient } from './client.ts'
import { startEmbedded } from './embedded.ts'

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

test('a usual port that another program has taken is given up for a free one', async () => {
  const dataDir = join(await newFolder(0o711), 'data')
  const options = { dataDir, clock: systemClock, log: () => {}, throwAway: true }
  const first = await startEmbedded(options)
  await first.stop()
  const port = Number(new URL(first.url).port)
  const taker = createServer()
  await new Promise<void>((resolve) => taker.listen(port, '127.0.0.1', resolve))
  const second = await startEmbedded(options)
  expect(second.url).not.toBe(first.url)
  expect(await answerOf(second.url)).toEqual([{ one: 1 }])
  await second.stop()
  taker.close()
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
