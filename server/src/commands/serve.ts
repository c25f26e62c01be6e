/** What `tollgate serve` does: start in order, say what is served, run until a signal, stop cleanly. */

import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type App, createApp } from '../app.ts'
import type { Discovered } from '../catalog/discovered.ts'
import { refusalResponse } from '../edge/envelopes.ts'
import { makeFirstKey } from '../firstStart.ts'
import type { HttpServer } from '../io/httpServer.ts'
import { createLog } from '../io/log.ts'
import { migrate } from '../io/postgres/migrate.ts'
import { openDatabase } from '../io/postgres/open.ts'
import { refusal } from '../kernel/errors.ts'
import { toHex } from '../kernel/ids.ts'
import type { Log } from '../kernel/log.ts'
import { discover } from '../upstream/discover.ts'
import { banner } from './banner.ts'
import { drain } from './drain.ts'
import { openPort } from './openPort.ts'
import type { ServeOptions, Surroundings } from './surroundings.ts'
import { MIGRATIONS_FOLDER } from './system.ts'

const DONE = 0
const FAILED = 1

/** How long local model servers are looked for: loopback answers in milliseconds, and nobody likes a slow start. */
const DISCOVERY_TIMEOUT_MS = 500

/**
 * The HTTP server's own limit is off: its 413 has no envelope and no request id, and ours comes before the body is read,
 * or while it is. What a client sends after that is read from its socket and dropped as it comes.
 */
const NO_SERVER_LIMIT_BYTES = Number.MAX_SAFE_INTEGER

/** Nothing on the admin port takes a body. */
const ADMIN_BODY_BYTES = 64 * 1024

/** Signals as `main.ts` hears them. */
export interface Signals {
  /** Called for each SIGTERM or SIGINT. */
  onStop(callback: () => void): void
  /** Called for each SIGHUP. */
  onReload(callback: () => void): void
}

/** Each file found in the models folder is a process of its own with the whole model in memory. */
const DISCOVERED_FILES_MAX = 4

/** Runs the gateway until it is stopped; gives the exit code. */
export async function serve(
  options: ServeOptions,
  machine: Pick<Surroundings, 'clock' | 'randomBytes' | 'stdout' | 'stderr'>,
  signals: Signals,
): Promise<number> {
  const { config } = options
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
    const discovered = await findModels(options, clock, log)
    app = await createApp({
      config,
      database: opened.database,
      databaseUrl: opened.url,
      alone: opened.embedded,
      discovered,
      clock,
      random: randomBytes,
      log,
      onFatal: (reason) => stopping.fail(reason),
    })
    const [open, admin] = openPorts(app, options, log, randomBytes)
    servers.push(open, admin)
    // Once nothing is in the way any more: a key that was made and never shown would be lost.
    const key = await makeFirstKey(opened.database, clock, randomBytes)
    const running = app
    signals.onReload(() => void running.catalog.reload())
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

async function findModels(
  { config }: ServeOptions,
  clock: Surroundings['clock'],
  log: Log,
): Promise<readonly Discovered[]> {
  if (!config.settings.fixed.discovery) return []
  const modelsFolder = join(config.dataDirectory, 'models')
  await mkdir(modelsFolder, { recursive: true })
  const skipPorts = [config.port, config.adminPort]
  const found = await discover({ clock, skipPorts, modelsFolder, timeoutMs: DISCOVERY_TIMEOUT_MS })
  const files = found.filter(({ kind }) => kind === 'gguf')
  const tooMany = new Set<Discovered>(files.slice(DISCOVERED_FILES_MAX))
  if (tooMany.size > 0) {
    const advice = `${tooMany.size} files in ${modelsFolder} are left out; name those to be served in a tollgate.yaml`
    log.warn({ served: DISCOVERED_FILES_MAX, leftOut: tooMany.size }, advice)
  }
  return found.filter((each) => !tooMany.has(each))
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

/** Collects what asks the server to stop. `first` gives the reason of a failure, or null for a signal. */
function stopRequests(signals: Signals) {
  let stop: (reason: string | null) => void = () => {}
  let stopNow = () => {}
  const first = new Promise<string | null>((resolve) => {
    stop = resolve
  })
  const second = new Promise<void>((resolve) => {
    stopNow = resolve
  })
  let asked = 0
  signals.onStop(() => {
    asked += 1
    if (asked === 1) stop(null)
    else stopNow()
  })
  return { first, second, fail: (reason: string) => stop(reason) }
}
