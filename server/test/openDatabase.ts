/**
 * A process that opens the database of a data directory, says so on stdout, and works until it is told to go on stdin
 * or is killed: what tests of kills and of sharing run. Arguments: data directory, role, what to do.
 */

import { join } from 'node:path'
import { systemClock } from '../src/infra/clock.ts'
import { openDatabase } from '../src/infra/postgres/open.ts'
import { findPostmaster } from '../src/infra/postgres/postmaster.ts'

const [dataDir = '', role = '', task = 'wait'] = process.argv.slice(2)

try {
  const opened = await openDatabase({
    dataDir,
    databaseUrl: null,
    clock: systemClock,
    role: role === 'server' ? 'server' : 'command',
    log: (message) => console.error(message),
    onLost: (reason) => console.log(`lost: ${reason}`),
  })
  console.log(`open ${(await findPostmaster(join(dataDir, 'postgres/cluster')))?.pid}`)
  if (task === 'insert') await opened.database.query('insert into worked values ($1)', [process.pid])
  if (task === 'wait') for await (const _ of process.stdin) break
  await opened.release()
  console.log('released')
  process.exit(0)
} catch (error) {
  console.log(`failed: ${error instanceof Error ? error.message : error}`)
  process.exit(1)
}
