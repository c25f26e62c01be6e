/** The composition root: opens every room once, lowest first, and composes the parts that they give. */

import { openAccount, readBalance } from '../billing/admission/balance/balance.ts'
import { foldSlot } from '../billing/admission/slots/foldSlot.ts'
import { listUnfoldedSlots } from '../billing/admission/slots/store.ts'
import { storePrices } from '../billing/charges/prices/storePrices.ts'
import { openBilling } from '../billing/open.ts'
import { readChargedSince } from '../billing/usage/store.ts'
import type { Discovered } from '../catalog/discovered.ts'
import { openCatalog } from '../catalog/open.ts'
import type { FixedSettings } from '../catalog/settings.ts'
import type { LiveCatalog } from '../catalog/watch.ts'
import type { Config } from '../config/config.ts'
import { openHttp } from '../http/open.ts'
import type { Route } from '../http/route.ts'
import type { PasswordHash } from '../identity/accounts/secrets/betterAuth.ts'
import { openIdentity } from '../identity/open.ts'
import { openInference } from '../inference/open.ts'
import { watchDescriptors } from '../infra/descriptors.ts'
import type { Peer } from '../infra/httpServer.ts'
import type { Metrics } from '../infra/metrics.ts'
import { openOtlp } from '../infra/otlp.ts'
import type { DatabaseAddress } from '../infra/postgres/address.ts'
import type { Database } from '../infra/postgres/database.ts'
import { isDatabaseAway } from '../infra/postgres/faults.ts'
import type { Reads } from '../infra/postgres/reads.ts'
import { readBurnCents } from '../instances/burn.ts'
import { openJobs } from '../jobs/open.ts'
import { createClientAddress } from '../lib/clientAddress.ts'
import type { DataKeys } from '../lib/dataKeys.ts'
import type { RandomBytes } from '../lib/ids.ts'
import type { Log } from '../lib/log.ts'
import type { Clock } from '../lib/time.ts'
import { openPayments } from '../payments/open.ts'
import { reportLeavingPayments } from '../payments/unserved/report.ts'
import { openProcesses } from '../processes/open.ts'
import type { Provider } from '../providers/dialect/spec.ts'
import { openProviders } from '../providers/open.ts'
import { type LookedAtTarget, lookAtTargets, targetGauges } from '../routing/gauges.ts'
import { Health } from '../routing/health.ts'
import { measureSeconds } from '../videos/clip/measure.ts'
import type { VideoDependencies } from '../videos/job/dependencies.ts'
import { openVideos } from '../videos/open.ts'
import { openWebhooks } from '../webhooks/open.ts'
import { publishEvent } from '../webhooks/publish.ts'
import { compose } from './compose.ts'
import { openDataKeysOrLeave } from './dataKeys.ts'
import { deletionBy, openDeletion } from './deletion/open.ts'
import { openDepositsPart } from './deposits.ts'
import { type Infrastructure, infrastructureOf } from './infrastructure.ts'
import { openMachines } from './machines.ts'
import { routesNotEnabled } from './notEnabled.ts'
import { operatorRoutes } from './operator/routes.ts'
import { readQueues } from './queues.ts'
import { type ClockTrouble, clockReasons } from './readiness.ts'
import type { Room } from './room.ts'
import { createRouter } from './router.ts'

export interface AppOptions {
  readonly config: Config
  readonly database: Database
  /** A pool of its own for reads whose clients wait. Left out: they use `database`. */
  readonly reads?: Reads
  /** For sessions and listeners beside the pool. */
  readonly databaseAddress: DatabaseAddress
  /** Names this process's connections (`infra/postgres/processToken.ts`); null: it has no name. */
  readonly token: string | null
  /** True when nobody else uses the database: the embedded one, owned by this process. */
  readonly alone: boolean
  readonly discovered: readonly Discovered[]
  /** The database's clock (E20). */
  readonly clock: Clock
  /** As in `DatabaseClock`; left out: there never is any. */
  readonly clockTrouble?: ClockTrouble
  readonly random: RandomBytes
  readonly log: Log
  /** Stands in for the clients that make videos, and for the measure of their files. Left out: the real ones. */
  readonly videos?: ScriptedVideos
  /** As in `BetterAuthOptions`. */
  readonly passwordHash?: PasswordHash
  /** Called when serving can't go on. */
  readonly onFatal: (reason: string) => void
}

/** Stands in for the clients that make videos, and for the measure of their files. */
export interface ScriptedVideos extends Pick<VideoDependencies, 'measureSeconds'> {
  readonly wrap: (client: Provider) => Provider
}

const REAL_VIDEOS: ScriptedVideos = { wrap: (client) => client, measureSeconds }

export interface App {
  readonly catalog: LiveCatalog
  /** Everything that is served, and who may call it. */
  readonly routes: readonly Route[]
  handle(request: Request, connection: Peer): Response | Promise<Response>
  /** The admin port: metrics and readiness. */
  handleAdmin(request: Request): Promise<Response>
  /** Tells where the server listens, such as `http://127.0.0.1:8080`, for links where the settings have no public URL. */
  listensAt(url: string): void
  /** Admits nothing more; resolves when every open call has ended and every charge is durable. */
  drain(): Promise<void>
  /** Ends the work in the background. Call it after {@link drain}, or to give up on open calls. */
  close(): Promise<void>
}

/** Opens every room; resolves when calls can be served. */
export async function createApp(options: AppOptions): Promise<App> {
  const infrastructure = infrastructureOf(options)
  const base = await openBase(options, infrastructure)
  const { http, processes, dataKeysRoom, jobs, identity, providers, catalog } = base
  const { payments, deposits, billing, inference, videos, webhooks, machines, health, telemetry } = await openPaidRooms(
    options,
    infrastructure,
    base,
  )
  const looks = () => lookAtTargets(health, catalog.current, providers.clientFor)
  const rooms: Room[] = [
    http,
    processes,
    dataKeysRoom,
    jobs,
    identity,
    providers,
    catalog,
    { metrics: targetGauges(looks), readiness: () => clockReasons(options.clockTrouble) },
    billing,
    inference,
    videos,
    webhooks,
    ...machines,
    { ...payments, ...payments.app },
    deposits,
    operatorPart(options, identity, http, looks),
    openDeletion(options, { signsIn: identity.sessions !== undefined, wakeJobs: jobs.wake }),
    { close: () => telemetry?.close() },
  ]
  const routes = routesOf(options, rooms)
  const handle = routerOf(options, infrastructure.metrics, http, identity, routes)
  jobs.start(rooms.flatMap(({ jobHandlers = [] }) => jobHandlers))
  const { adminHosts } = options.config.settings.fixed
  const composed = compose(rooms, { ...infrastructure, adminHosts, listen: processes.listen })
  return { catalog: catalog.live, routes, handle, ...composed }
}

/** Opens the rooms that know no money. */
async function openBase(options: AppOptions, infrastructure: Infrastructure) {
  const { config, database, databaseAddress, clock, videos: scripted = REAL_VIDEOS } = options
  const { onDayMended } = infrastructure
  const { lowBalanceMicrocents, smtp, payments } = config.settings.fixed
  const onPaymentsChanged = reportLeavingPayments(infrastructure, payments)
  const dataDirectory = config.member?.sharedDirectory ?? config.dataDirectory
  const processes = await openProcesses({
    ...infrastructure,
    databaseAddress,
    token: options.token,
    alone: options.alone,
    fold: (tx, slot, takenAtMs, after) =>
      foldSlot(tx, slot, clock.now(), { after, lowBalanceMicrocents, takenAtMs, onDayMended }),
    listUnfolded: listUnfoldedSlots,
  })
  const { slot } = processes
  const dataKeysRoom = await openDataKeysOrLeave(options, processes, dataDirectory)
  const http = await openHttp({
    ...infrastructure,
    slot: () => slot.number,
    isAbandoned: slot.isAbandoned,
    dataKeys: dataKeysRoom.dataKeys,
    dataDirectory,
    ...requestSettings(config),
  })
  processes.onRegained(http.onSlotRegained)
  const jobs = openJobs({ ...infrastructure, smtp })
  const identity = await openIdentityRoom(options, infrastructure, http, dataKeysRoom.dataKeys, jobs, dataDirectory)
  const providers = openProviders({
    ...infrastructure,
    environment: config.environment(),
    catalog: () => catalog.current(),
    wrap: scripted.wrap,
  })
  const catalog = await openCatalog({
    ...infrastructure,
    settings: config.settings,
    discovered: options.discovered,
    source: config.watched,
    stamp: config.stamp,
    beforeActivate: (next) => storePrices(database, next, clock.now()),
    afterActivate: (next, { fixed }) => {
      providers.keep(next)
      onPaymentsChanged(fixed.payments)
    },
  })
  return { dataDirectory, processes, dataKeysRoom, http, jobs, identity, providers, catalog }
}

/** Opens the rooms that take, hold or charge money, and those that tell customers of it. */
async function openPaidRooms(
  options: AppOptions,
  infrastructure: Infrastructure,
  { dataDirectory, processes, dataKeysRoom, http, jobs, providers, catalog }: Awaited<ReturnType<typeof openBase>>,
) {
  const { config, clock, log, videos: scripted = REAL_VIDEOS } = options
  const { fixed } = config.settings
  const health = new Health(clock, fixed.breakerFailures)
  const telemetry = fixed.otlp === null ? null : await openOtlp({ ...fixed.otlp, clock, log })
  const onNoticed = () => billing.onNoticed()
  const payments = await openPayments({ ...infrastructure, config, catalog: catalog.current, onNoticed })
  const deposits = await openDepositsPart(infrastructure, fixed)
  const billing = await openBilling({
    ...infrastructure,
    ...moneySettings(fixed),
    ...payments.forBilling,
    // Without the section `instances` too: some may still live.
    readBurn: (organizationId) => readBurnCents(infrastructure.reads, organizationId),
    slot: processes.slot,
    onSlotRegained: processes.onRegained,
    catalog: catalog.current,
    mail: jobs,
    isStopping: () => !http.lifecycle.isAdmitting(),
  })
  const paid = {
    ...infrastructure,
    money: billing.money,
    catalog: catalog.current,
    health,
    providers,
    ...(telemetry === null ? {} : { telemetry }),
  }
  const inference = openInference({
    ...paid,
    vectors: providers.vectors,
    memoryBudget: http.memoryBudget,
    settings: fixed,
  })
  const videos = openVideos({
    ...paid,
    place: fixed.artifacts,
    dataDirectory,
    provider: providers.named,
    measureSeconds: scripted.measureSeconds,
    publish: (tx, event) => publishEvent(tx, event, fixed.webhooks.pendingMost),
    settings: fixed,
    onNoticed,
  })
  const webhooks = await openWebhooks({
    ...infrastructure,
    dataKeys: dataKeysRoom.dataKeys,
    forgetAnswer: http.forgetAnswer,
    settings: fixed.webhooks,
    refuseUnfunded: billing.refuseUnfunded,
    isStopping: () => !http.lifecycle.isAdmitting(),
  })
  const given = { ...options, ...infrastructure, dataDirectory }
  const machines = await openMachines(given, billing.money, onNoticed)
  return { payments, deposits, billing, inference, videos, webhooks, machines, health, telemetry }
}

/** Opens API keys, and the accounts of people where the settings have them. */
function openIdentityRoom(
  options: AppOptions,
  { reads }: Infrastructure,
  { limits, openCalls, lifecycle }: Pick<Awaited<ReturnType<typeof openHttp>>, 'limits' | 'openCalls' | 'lifecycle'>,
  dataKeys: DataKeys,
  { mailTransport, wake: wakeJobs }: Pick<ReturnType<typeof openJobs>, 'mailTransport' | 'wake'>,
  dataDirectory: string,
) {
  const { config, databaseAddress, database, clock, random, log, passwordHash } = options
  const { accounts, publicUrl, trustedProxies, instances, payments } = config.settings.fixed
  const { host, port } = config
  const isStopping = () => !lifecycle.isAdmitting()
  const offers = { offersInstances: instances !== null, takesPayments: payments !== null }
  const ofMoney = { openAccount, readBalance: (organizationId: string) => readBalance(reads, organizationId) }
  const links = { mailTransport, wakeJobs, dataDirectory, publicUrl, host, port, isStopping }
  const given = { rateLimiter: limits.rateLimiter, deleteOrganization: deletionBy(options, wakeJobs), passwordHash }
  return openIdentity({
    ...{ database, reads, clock, random, log, openCalls },
    clientAddress: createClientAddress(trustedProxies),
    accounts: accounts && { ...accounts, ...links, ...offers, ...ofMoney, ...given, databaseAddress, dataKeys },
  })
}

/** The routes for operators, where people sign in. */
function operatorPart(
  { config, database, clock, random, log }: AppOptions,
  { sessions }: Pick<Awaited<ReturnType<typeof openIdentity>>, 'sessions'>,
  { lifecycle }: Pick<Awaited<ReturnType<typeof openHttp>>, 'lifecycle'>,
  looks: () => Iterable<LookedAtTarget>,
): Room {
  if (sessions === undefined) return {}
  return {
    routes: operatorRoutes({
      ...{ database, clock, random, log, looks },
      clientAddress: createClientAddress(config.settings.fixed.trustedProxies),
      queues: readQueues({ database, clock, log }),
      isStopping: () => !lifecycle.isAdmitting(),
    }),
  }
}

/** The routes of all rooms, and those that the settings leave out, which refuse. */
function routesOf({ config }: AppOptions, rooms: readonly Room[]): Route[] {
  return [...rooms.flatMap((room) => room.routes ?? []), ...routesNotEnabled(config.settings.fixed)]
}

/** The router, over these routes. */
function routerOf(
  { config, clock, log, random }: AppOptions,
  metrics: Metrics,
  http: Awaited<ReturnType<typeof openHttp>>,
  { authenticate, sessions }: Pick<Awaited<ReturnType<typeof openIdentity>>, 'authenticate' | 'sessions'>,
  routes: readonly Route[],
): App['handle'] {
  const { fixed } = config.settings
  return createRouter({
    pipeline: {
      clock,
      log,
      random,
      lifecycle: http.lifecycle,
      authenticate,
      ...(sessions === undefined ? {} : { sessions }),
      rateLimiter: http.limits.rateLimiter,
      addressRateLimiter: http.limits.addressRateLimiter,
      openRequests: http.limits.openRequests,
      readTurns: http.readTurns,
      rateLimit: fixed.rateLimit,
      newAccountRateLimit: fixed.newAccountRateLimit,
      clientAddress: createClientAddress(fixed.trustedProxies),
      bodyLimitBytes: fixed.bodyLimitBytes,
      ...http.requestBodies,
      partsMost: fixed.partsMost,
      openCalls: http.openCalls,
      isCrowded: watchDescriptors(),
      isDatabaseAway,
      onAnswered: metrics.answered,
    },
    kept: http.kept,
    corsOrigins: fixed.corsOrigins,
    routes,
  })
}

/** The settings of the room of requests: how much callers may have open and organizations may keep, and where. */
function requestSettings({ settings: { fixed }, redisUrl }: Config) {
  const { artifacts: place, keptAnswers: quota } = fixed
  return { place, bounds: fixed, quota, chargedMicrocents: readChargedSince, redisUrl }
}

/** The part of the settings that billing goes by. */
function moneySettings({ lowBalanceMicrocents, chargeDeadlineMs, retentionDays, accounts }: FixedSettings) {
  return { lowBalanceMicrocents, chargeDeadlineMs, retentionDays, hasAccounts: accounts !== null }
}
