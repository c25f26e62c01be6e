/** One gateway in this process. */

import { type App, createApp } from '../app/app.ts'
import { refusalResponse } from '../http/envelopes.ts'
import { hasUsableKey } from '../identity/keys/list.ts'
import type { HttpServer } from '../infra/httpServer.ts'
import { boundSocketQueues } from '../infra/socketQueues.ts'
import { refusal } from '../lib/errors.ts'
import { toHex } from '../lib/ids.ts'
import { SECOND_MS, within } from '../lib/time.ts'
import { addressOf, banner } from './banner.ts'
import { drain } from './drain.ts'
import { openFirstKey, openSetUpLink } from './firstKey.ts'
import { openPort } from './openPort.ts'
import { unlessStopped } from './signals.ts'
import type { ServeContext } from './startUp.ts'

/**
 * The HTTP server's own limit is off: its 413 has no envelope and no request id, and ours comes before the body is
 * read, or while it is. The rest of such a body is read from its socket and dropped as it comes.
 */
const NO_SERVER_LIMIT_BYTES = Number.MAX_SAFE_INTEGER
const UNBOUNDED =
  'Linux does not let the server bound what the kernel keeps for a connection: leave up to 10 MB of memory for each client that does not read, or sends faster than it is read'

/** A gateway that is stopped while it opens, by a database that does not answer, is not waited for. */
const LATE_OPENING_MS = 5 * SECOND_MS

/** Nothing on the admin port takes a body. */
const ADMIN_BODY_BYTES = 64 * 1024

/** Runs one gateway until it is asked to stop, and lets what is open end. */
export async function serveOne(started: ServeContext): Promise<void> {
  const { config, json, clock, randomBytes, stdout, opened, discovered, log, signals, stopping } = started
  let app: App | null = null
  const servers: HttpServer[] = []
  try {
    const opening = createApp({
      config,
      database: opened.database,
      reads: opened.reads,
      databaseAddress: opened.address,
      token: opened.token,
      alone: opened.embedded && config.member === null,
      discovered,
      clock,
      clockTrouble: () => clock.trouble(),
      random: randomBytes,
      log,
      onFatal: (reason) => stopping.fail(reason),
    })
    app = await unlessStopped(stopping.first, opening)
    if (app === null) {
      // Closed whole where it is open soon.
      const late = opening.catch(() => null)
      app = await within(clock, LATE_OPENING_MS, late, null)
      return
    }
    const [open, admin] = openPorts(app, started)
    servers.push(open, admin)
    app.listensAt(addressOf(open.host, open.port))
    // Once nothing is in the way any more: a key that was made and never shown would be lost.
    const firstKey = await openFirstKey(started)
    const url = addressOf(open.host, open.port)
    const setUpLink = await openSetUpLink(started, config.settings.fixed.publicUrl ?? url)
    const running = app
    signals.onReload(() => void running.catalog.reload())
    if (config.member !== null) signals.onOrphaned(stopping.now)
    stdout(
      banner({
        host: open.host,
        port: open.port,
        adminPort: admin.port,
        firstKey,
        hasKeys: await hasUsableKey(opened.database, clock.now()),
        setUpLink,
        models: app.catalog.current().models,
        discovery: config.settings.fixed.discovery,
        foundModels: discovered.length > 0,
        dataDirectory: config.dataDirectory,
        settingsFile: config.source?.fileName ?? null,
        json,
      }),
    )
    log.info({ port: open.port, adminPort: admin.port }, 'serving')
    await stopping.first
    const { drainMs } = config.settings.fixed
    await drain({ app, server: open, drainMs, second: stopping.second, log, clock })
  } finally {
    await Promise.all(servers.map((server) => server.kill()))
    await app?.close()
  }
}

function openPorts(app: App, { config, log, randomBytes }: ServeContext): [HttpServer, HttpServer] {
  const onError = (error: unknown) => {
    log.error({ err: error }, 'a request failed outside its handler')
    const refused = refusal('internal_error', 'The request failed because of a fault in this server.')
    return refusalResponse(refused, 'A', toHex(randomBytes(16)))
  }
  const open = openPort('--port', {
    host: config.host,
    port: config.port,
    isShared: config.member !== null,
    maxBodyBytes: NO_SERVER_LIMIT_BYTES,
    handle: app.handle,
    onError,
  })
  if (!boundSocketQueues(open.port) && process.platform === 'linux') log.warn({}, UNBOUNDED)
  try {
    const admin = openPort('--admin-port', {
      host: '127.0.0.1',
      port: config.adminPort,
      maxBodyBytes: ADMIN_BODY_BYTES,
      handle: app.handleAdmin,
      onError,
    })
    return [open, admin]
  } catch (error) {
    void open.kill()
    throw error
  }
}
