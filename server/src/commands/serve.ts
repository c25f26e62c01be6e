/** What `tollgate serve` does: start in order, say what is served, run until a signal, stop cleanly. */

import { type App, createApp } from '../app.ts'
import { refusalResponse } from '../edge/envelopes.ts'
import { makeFirstKey } from '../firstStart.ts'
import type { HttpServer } from '../io/httpServer.ts'
import { createLog } from '../io/log.ts'
import { migrate } from '../io/postgres/migrate.ts'
import { openDatabase } from '../io/postgres/open.ts'
import { refusal } from '../kernel/errors.ts'
import { toHex } from '../kernel/ids.ts'
import type { Log } from '../kernel/log.ts'
import { banner } from './banner.ts'
import { drain } from './drain.ts'
import { findModels } from './findModels.ts'
import { openPort } from './openPort.ts'
import { serveMany } from './serveMany.ts'
import { type Signals, stopRequests } from './signals.ts'
import type { ServeOptions, Surroundings } from './surroundings.ts'
import { MIGRATIONS_FOLDER } from './system.ts'

const DONE = 0
const FAILED = 1

/**
 * The HTTP server's own limit is off: its 413 has no envelope and no request id, and ours comes before the body is read,
 * or while it is. What a client sends after that is read from its socket and dropped as it comes.
 */
const NO_SERVER_LIMIT_BYTES = Number.MAX_SAFE_INTEGER

/** Nothing on the admin port takes a body. */
const ADMIN_BODY_BYTES = 64 * 1024

/** Runs the gateway until it is stopped; gives the exit code. */
export async function serve(
  options: ServeOptions,
  machine: Pick<Surroundings, 'clock' | 'randomBytes' | 'stdout' | 'stderr'>,
  signals: Signals,
): Promise<number> {
  const { config } = options
  if (config.processes > 1) return serveMany(options, machine, signals)
  const { clock, randomBytes, stdout, stderr } = machine
  const log = createLog(config.settings.fixed.logLevel, { write: stderr })
  const stopping = stopRequests(signals)

  const opened = await openDatabase({
    dataDir: config.dataDirectory,
    databaseUrl: config.databaseUrl?.reveal() ?? null,
    clock,
    role: 'server',
    log: (message) => log.info({}, message),
    onLost: (reason) => stopping.fail(reason),
  })
  let app: App | null = null
  const servers: HttpServer[] = []
  try {
    await migrate(opened.database, MIGRATIONS_FOLDER, clock)
    const discovered = config.member?.discovered ?? (await findModels(options, clock, log))
    app = await createApp({
      config,
      database: opened.database,
      databaseUrl: opened.url,
      alone: opened.embedded && config.member === null,
      discovered,
      clock,
      random: randomBytes,
      log,
      onFatal: (reason) => stopping.fail(reason),
    })
    const [open, admin] = openPorts(app, options, log, randomBytes)
    servers.push(open, admin)
    // Once nothing is in the way any more: a key that was made and never shown would be lost.
    const isFirst = config.member === null || config.member.isFirst
    const key = isFirst ? await makeFirstKey(opened.database, clock, randomBytes) : null
    const running = app
    signals.onReload(() => void running.catalog.reload())
    if (config.member !== null) signals.onOrphaned(stopping.now)
    stdout(
      banner({
        host: open.host,
        port: open.port,
        adminPort: admin.port,
        key,
        models: app.catalog.current().models,
        discovery: config.settings.fixed.discovery,
        foundModels: discovered.length > 0,
        dataDirectory: config.dataDirectory,
        settingsFile: config.source?.fileName ?? null,
        json: options.json,
      }),
    )
    log.info({ port: open.port, adminPort: admin.port }, 'serving')
    const reason = await stopping.first
    if (reason !== null) log.error({ reason }, 'serving can not go on')
    const { drainMs } = config.settings.fixed
    await drain({ app, server: open, drainMs, second: stopping.second, log, clock })
    return reason === null ? DONE : FAILED
  } finally {
    await Promise.all(servers.map((server) => server.kill()))
    await app?.close()
    await opened.release()
    log.info({}, 'stopped')
  }
}

function openPorts(
  app: App,
  { config }: ServeOptions,
  log: Log,
  randomBytes: Surroundings['randomBytes'],
): [HttpServer, HttpServer] {
  const onError = (error: unknown) => {
    log.error({ err: error }, 'a request failed outside its handler')
    const refused = refusal('internal_error', 'Something failed here, unexpectedly.')
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
