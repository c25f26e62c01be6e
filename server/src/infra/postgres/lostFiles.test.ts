/** An embedded database of which a file was lost: an operator is told which one, and what to do. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { chmod, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../clock.ts'
import { startEmbedded } from './embedded.ts'

const LIMIT_MS = 60_000

let folder: string
let dataDir: string
const start = () => startEmbedded({ dataDir, clock: systemClock, log: () => {}, throwAway: true })
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tollgate-lost-'))
  // As root the database runs as another user, who must pass.
  await chmod(folder, 0o711)
  dataDir = join(folder, 'data')
  await (await start()).stop()
}, LIMIT_MS)
afterAll(() => rm(folder, { recursive: true, force: true }))

test(
  'its password is gone: no other is made in its place',
  async () => {
    const file = join(dataDir, 'postgres/password')
    await rename(file, `${file}.kept`)
    await expect(start()).rejects.toThrow(
      `the password of the database is not in ${file} any more: bring this file back`,
    )
    expect(existsSync(file)).toBe(false)
    await rename(`${file}.kept`, file)
    await (await start()).stop()
  },
  LIMIT_MS,
)

test(
  'its password is another one',
  async () => {
    const file = join(dataDir, 'postgres/password')
    const kept = await readFile(file, 'utf8')
    await writeFile(file, 'another\n')
    await expect(start()).rejects.toThrow(
      `the password of the database is not in ${file} any more: bring this file back`,
    )
    await writeFile(file, kept)
    await (await start()).stop()
  },
  LIMIT_MS,
)

test(
  'its PG_VERSION is gone',
  async () => {
    await rm(join(dataDir, 'postgres/cluster/PG_VERSION'))
    await expect(start()).rejects.toThrow(
      `${join(dataDir, 'postgres/cluster')} is no whole PostgreSQL data directory: its file PG_VERSION is missing.`,
    )
  },
  LIMIT_MS,
)
