/** An embedded database takes connections for all gateways that share it. */

import { expect, test } from 'bun:test'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../clock.ts'
import { openClient } from './client.ts'
import { startEmbedded } from './embedded.ts'

const LIMIT_MS = 60_000

test(
  'it is started with connections for so many gateways; one that runs already and has too few is told of',
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'tollgate-connections-'))
    // As root the database runs as another user, who must pass.
    await chmod(folder, 0o711)
    const said: string[] = []
    const start = (gateways: number) => {
      const log = (message: string) => said.push(message)
      return startEmbedded({ dataDir: join(folder, 'data'), gateways, clock: systemClock, log, throwAway: true })
    }
    const server = await start(16)
    try {
      const database = openClient(server.url, { maxConnections: 1, clock: systemClock })
      expect(await database.query('show max_connections')).toEqual([{ max_connections: '440' }])
      await database.close()
      await start(16)
      expect(said).toEqual([])
      await start(17)
      expect(said).toEqual([
        'the embedded PostgreSQL, which ran already, takes 440 connections, and 17 gateways need 465: stop Tollgate once, so that it starts again with more',
      ])
    } finally {
      await server.stop()
      await rm(folder, { recursive: true })
    }
  },
  LIMIT_MS,
)
