/** A server of the oldest PostgreSQL that Tollgate takes, from Debian's package, for tests. */

import { existsSync } from 'node:fs'
import { chmod, chown, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { identity } from '../src/infra/postgres/cluster.ts'
import { databaseUser } from '../src/infra/postgres/osUser.ts'
import { SOCKET_PORT, urlOf } from '../src/infra/postgres/socket.ts'
import type { TestPostgres } from './postgres.ts'

const BIN = '/usr/lib/postgresql/15/bin'
const PASSWORD = 'of-tests'

/** Debian 12 has it (`apt-get install postgresql-15`); where it is missing, tests of it are skipped. */
export const HAS_OLDEST_POSTGRES = existsSync(join(BIN, 'postgres'))

/** Starts a server in a temporary folder, which flushes nothing. */
export async function startOldestPostgres(): Promise<TestPostgres> {
  const user = await databaseUser()
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-oldest-'))
  await chmod(folder, 0o711)
  const [data, passwordFile] = [join(folder, 'data'), join(folder, 'password')]
  await mkdir(data, { mode: 0o700 })
  await writeFile(passwordFile, PASSWORD, { mode: 0o600 })
  if (user !== null) for (const path of [data, passwordFile]) await chown(path, user.uid, user.gid)
  const as = { ...identity(user), stdin: 'ignore', stdout: 'ignore', stderr: 'pipe' } as const
  const initdb = Bun.spawn(
    [join(BIN, 'initdb'), '-D', data, '-U', 'postgres', '-A', 'scram-sha-256', '--pwfile', passwordFile, '--no-sync'],
    as,
  )
  const [said, code] = await Promise.all([new Response(initdb.stderr).text(), initdb.exited])
  if (code !== 0) throw new Error(`initdb ended with ${code}: ${said}`)
  const options = ['-p', `${SOCKET_PORT}`, '-h', '', '-k', data, '-c', 'fsync=off', '-c', 'max_connections=300']
  const server = Bun.spawn([join(BIN, 'postgres'), '-D', data, ...options], { ...as, stderr: 'ignore' })
  return {
    url: urlOf({ port: SOCKET_PORT, socketFolder: data }, 'postgres', PASSWORD),
    async stop() {
      server.kill('SIGINT')
      await server.exited
      await rm(folder, { recursive: true, force: true })
    },
  }
}
