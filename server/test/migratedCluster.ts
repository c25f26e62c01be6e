/**
 * A cluster of the embedded PostgreSQL, migrated and stopped, that servers of tests begin with a copy of: `initdb` and migrations
 * take a second.
 */

import { spawnSync } from 'node:child_process'
import { chmod, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '../src/infra/clock.ts'
import { openClient } from '../src/infra/postgres/client.ts'
import { startEmbedded } from '../src/infra/postgres/embedded.ts'
import { migrate } from '../src/infra/postgres/migrate.ts'
import { MIGRATIONS_FOLDER } from './postgres.ts'

/** Names the data directory of the run's migrated cluster for the test files; set by the runner. */
export const MIGRATED_CLUSTER_VARIABLE = 'TOLLGATE_TEST_CLUSTER'

/** Makes the cluster in a folder that must not be there yet. */
export async function makeMigratedCluster(dataDir: string): Promise<void> {
  await mkdir(dataDir)
  // As root, the database runs as a user who must be able to pass.
  await chmod(dataDir, 0o711)
  const server = await startEmbedded({
    dataDir,
    clock: systemClock,
    log: (message) => console.error(message),
    throwAway: true,
  })
  const database = openClient(server.url, { maxConnections: 1, clock: systemClock })
  try {
    await migrate(database, MIGRATIONS_FOLDER, systemClock)
  } finally {
    await database.close()
    await server.stop()
  }
}

/** Copies the run's cluster into a data directory. Without a runner there is none: then the server makes its own. */
export function copyMigratedCluster(dataDir: string): void {
  const from = process.env[MIGRATED_CLUSTER_VARIABLE]
  if (from === undefined || from === '') return
  // With owners: as root, the database runs as another user.
  const { status, stderr } = spawnSync('cp', ['-a', join(from, 'postgres'), dataDir], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`the migrated cluster could not be copied: ${stderr}`)
}
