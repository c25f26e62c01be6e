/** PostgreSQL that listens on a port of this machine, with TLS or without: what an operator's own server is like. */

import { chmod, chown, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../src/infra/clock.ts'
import { programOf } from '../src/infra/postgres/binaries.ts'
import { identity } from '../src/infra/postgres/cluster.ts'
import { startEmbedded } from '../src/infra/postgres/embedded.ts'
import { ROOT_HOME, resolveCluster } from '../src/infra/postgres/home.ts'
import { findPostmaster } from '../src/infra/postgres/postmaster.ts'
import { freePort } from './freePort.ts'
import type { TestPostgres } from './postgres.ts'
import { overTcp } from './silentProxy.ts'
import { until } from './until.ts'

/** Starts a server at `localhost`, which takes TLS where it is given a certificate. */
export async function startTcpPostgres(tls: Readonly<{ key: string; cert: string }> | null): Promise<TestPostgres> {
  const parent = await mkdtemp(join(tmpdir(), 'tollgate-test-'))
  // As root, the database runs as a user who must be able to pass.
  await chmod(parent, 0o711)
  const dataDir = join(parent, 'data')
  const log = (message: string) => console.error(message)
  const first = await startEmbedded({ dataDir, clock: systemClock, log, throwAway: true })
  await first.stop()
  const { folder, binaries, user } = await resolveCluster(dataDir, ROOT_HOME, log)
  for (const [name, text] of Object.entries(tls ?? {})) {
    const path = join(folder, `server.${name}`)
    await writeFile(path, text, { mode: 0o600 })
    if (user !== null) await chown(path, user.uid, user.gid)
  }
  const port = await freePort()
  const ssl = tls === null ? [] : ['ssl=on', 'ssl_key_file=server.key', 'ssl_cert_file=server.cert']
  const settings = ['listen_addresses=localhost', 'unix_socket_directories=', ...ssl].flatMap((each) => ['-c', each])
  const child = Bun.spawn([programOf(binaries, 'postgres'), '-D', folder, '-p', `${port}`, ...settings], {
    ...identity(user),
    stdio: ['ignore', 'ignore', 'ignore'],
  })
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`the server did not start: it ended with ${child.exitCode}`)
    return (await findPostmaster(folder))?.ready === true
  })
  return {
    url: overTcp(first.superuserUrl, port),
    async stop() {
      child.kill('SIGINT')
      await child.exited
      await rm(parent, { recursive: true, force: true })
    },
  }
}
