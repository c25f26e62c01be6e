/** PostgreSQL with a standby on this machine: a cold copy of its cluster, which replays all that the primary writes. */

import { type ChildProcess, spawn } from 'node:child_process'
import { appendFile, chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { kill } from 'node:process'
import { systemClock } from '../../src/infra/clock.ts'
import { programOf } from '../../src/infra/postgres/binaries.ts'
import { type Client, openClient } from '../../src/infra/postgres/client.ts'
import { type Cluster, identity } from '../../src/infra/postgres/cluster.ts'
import { type EmbeddedServer, startEmbedded } from '../../src/infra/postgres/embedded.ts'
import { ROOT_HOME, resolveCluster } from '../../src/infra/postgres/home.ts'
import { until } from '../until.ts'

/** As the primary knows it. */
const STANDBY = 'standby'
const STANDBY_PORT = 5433

export interface StandbyPair {
  /** Of the role of the gateways. */
  readonly primaryUrl: string
  readonly standbyUrl: string
  /** On the standby, as its superuser. */
  readonly standby: Client
  /** The standby receives nothing more. */
  partStandby(): Promise<void>
  /** SIGKILL to the primary with all its processes. */
  killPrimary(): Promise<void>
  /** Resolves when the standby takes writes. */
  promote(): Promise<void>
  stop(): Promise<void>
}

/** Starts both. With `isSynchronous` no commit ends before the standby has it. */
export async function startStandbyPair(isSynchronous: boolean): Promise<StandbyPair> {
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-test-'))
  // As root, the database runs as a user who must be able to pass.
  await chmod(folder, 0o711)
  const dataDir = join(folder, 'primary')
  const log = (message: string) => console.error(message)
  const start = () => startEmbedded({ dataDir, clock: systemClock, log })
  await (await start()).stop()
  const cluster = join(folder, 'standby')
  const original = await resolveCluster(dataDir, ROOT_HOME, log)
  await Bun.$`cp -a ${original.folder} ${cluster}`.quiet()
  const primary = await start()
  const sockets = join(folder, 'sockets')
  await mkdir(sockets)
  await writeFile(join(cluster, 'standby.signal'), '')
  await appendFile(join(cluster, 'postgresql.auto.conf'), `primary_conninfo = '${conninfoOf(primary)}'\n`)
  const { user } = original
  if (user !== null) await Bun.$`chown -R ${user.uid}:${user.gid} ${cluster} ${sockets}`.quiet()
  const server = startStandby(original, cluster, sockets)
  const standby = openClient(atStandby(primary.superuserUrl, sockets), { maxConnections: 1, clock: systemClock })
  await until(async () => {
    if (server.exitCode !== null) throw new Error(`the standby did not start: it ended with ${server.exitCode}`)
    return (await standby.query('select 1').catch(() => [])).length > 0
  })
  await attach(primary, isSynchronous)
  return {
    primaryUrl: primary.url,
    standbyUrl: atStandby(primary.url, sockets),
    standby,
    async partStandby() {
      await standby.query(`alter system set primary_conninfo = ''`)
      await standby.query('select pg_reload_conf()')
      await until(async () => (await standby.query('select 1 from pg_stat_wal_receiver')).length === 0)
    },
    async killPrimary() {
      const pid = Number((await readFile(join(original.folder, 'postmaster.pid'), 'utf8')).split('\n')[0])
      // It leads a group of its own.
      kill(-pid, 'SIGKILL')
    },
    async promote() {
      await standby.query('select pg_promote(true)')
    },
    async stop() {
      await standby.close()
      server.kill('SIGINT')
      await new Promise((resolve) => server.once('exit', resolve))
      await primary.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** Resolves when the standby receives what the primary writes, and the primary waits for it where it is to. */
async function attach({ superuserUrl }: EmbeddedServer, isSynchronous: boolean): Promise<void> {
  const database = openClient(superuserUrl, { maxConnections: 1, clock: systemClock })
  const isAttached = async (state: string) =>
    (
      await database.query('select 1 from pg_stat_replication where state = $1 and sync_state = $2', [
        'streaming',
        state,
      ])
    ).length > 0
  await until(() => isAttached('async'))
  if (isSynchronous) {
    await database.query(`alter system set synchronous_standby_names = '${STANDBY}'`)
    await database.query('select pg_reload_conf()')
    await until(() => isAttached('sync'))
  }
  await database.close()
}

/** Starts a copy of a cluster, by the binaries and the user of the original. */
function startStandby({ binaries, user }: Cluster, cluster: string, sockets: string): ChildProcess {
  const { cwd, env, ...rights } = identity(user)
  const words = ['-D', cluster, '-p', `${STANDBY_PORT}`, '-k', sockets]
  return spawn(programOf(binaries, 'postgres'), words, { cwd, env, ...rights, stdio: 'ignore' })
}

/** By its socket, as the superuser. */
function conninfoOf({ superuserUrl }: EmbeddedServer): string {
  const { username, password, port, searchParams } = new URL(superuserUrl)
  return `host=${searchParams.get('host')} port=${port} user=${username} password=${password} application_name=${STANDBY}`
}

function atStandby(url: string, sockets: string): string {
  const changed = new URL(url)
  changed.port = `${STANDBY_PORT}`
  changed.searchParams.set('host', sockets)
  return changed.toString()
}
