/** The composition root: builds every client and domain once, and passes them down. */

import { adminPort } from './app/adminPort.ts'
import { wireLimits } from './app/limits.ts'
import { sumOf, wireMoney } from './app/money.ts'
import { wireQueues } from './app/queues.ts'
import { type ClientFor, healthOf, keepClients, storePrices, targetsOf } from './app/targets.ts'
import { wireDeliverer } from './app/webhooks.ts'
import type { Discovered } from './catalog/discovered.ts'
import type { Served } from './catalog/model.ts'
import { type LiveCatalog, startLiveCatalog } from './catalog/watch.ts'
import { createTokenCounter } from './chat/tokenCounter.ts'
import type { Config } from './config.ts'
import { createLifecycle } from './edge/lifecycle.ts'
import type { Connection } from './edge/pipeline.ts'
import { createTurns } from './edge/turns.ts'
import { createAttempts } from './idempotency/attempts.ts'
import { openDataKey } from './idempotency/openDataKey.ts'
import { forgetAnswer, freeAbandoned } from './idempotency/store.ts'
import { openArtifacts } from './io/artifacts/open.ts'
import { createHttp } from './io/http/client.ts'
import { createMetrics } from './io/metrics.ts'
import { openOtlp } from './io/otlp.ts'
import { isConnectionFailure } from './io/postgres/client.ts'
import type { Database } from './io/postgres/database.ts'
import { openListener } from './io/postgres/listen.ts'
import { openSession } from './io/postgres/session.ts'
import { createMailer } from './io/smtp.ts'
import { ByteBudget } from './kernel/byteBudget.ts'
import type { RandomBytes } from './kernel/ids.ts'
import type { Log } from './kernel/log.ts'
import { parseNetworks } from './kernel/networks.ts'
import type { Clock } from './kernel/time.ts'
import { createClientAddress } from './keys/address.ts'
import { createAuthenticator } from './keys/authenticate.ts'
import { RECALL_CHANNEL } from './money/accounts/recall.ts'
import { SUBSCRIPTION_CHANNEL } from './money/plan/setSubscription.ts'
import { claimSlot } from './money/slot.ts'
import { createCourier } from './notices/courier.ts'
import { createRouter } from './publicPort.ts'
import { Health } from './routing/health.ts'
import { createUpstreamClients } from './upstream/clients.ts'
import type { Upstream } from './upstream/spec.ts'
import { createVectorWork } from './upstream/vectors/work.ts'
import type { VideoDependencies } from './videos/dependencies.ts'
import { measureSeconds } from './videos/measure.ts'
import { runVideos } from './videos/run.ts'
import { createFollower } from './webhooks/events/follow.ts'
import { publishEvent } from './webhooks/publish.ts'
import { preparePartitions, startWorkers } from './workers.ts'

export interface AppOptions {
  readonly config: Config
  readonly database: Database
  /** For sessions and listeners beside the pool. */
  readonly databaseUrl: string
  /** True when nobody else uses the database: the embedded one, owned by this process. */
  readonly alone: boolean
  readonly discovered: readonly Discovered[]
  readonly clock: Clock
  readonly random: RandomBytes
  readonly log: Log
  /** In tests: what makes the videos of all upstreams, and how its files are measured. */
  readonly videos?: ScriptedVideos
  /** Serving can't go on. */
  readonly onFatal: (reason: string) => void
}

/** Stands in for what makes and measures videos. */
export interface ScriptedVideos extends Pick<VideoDependencies, 'measureSeconds'> {
  readonly dress: (upstream: Upstream) => Upstream
}

export interface App {
  readonly catalog: LiveCatalog
  handle(request: Request, connection: Connection): Response | Promise<Response>
  /** The admin port: metrics and readiness. */
  handleAdmin(request: Request): Promise<Response>
  /** Admits nothing more; resolves when every open call has ended and every charge is durable. */
  drain(): Promise<void>
  /** Ends what runs in the background. Call it after {@link drain}, or to give up on what is open. */
  close(): Promise<void>
}

/** Memory of all answers over a MiB that are read, worked on or sent at one time. */
const LARGE_ANSWERS_BYTES = 256 << 20

/** Calls that wait for some of it at one time; each has its upstream's answer begun. */
const LARGE_ANSWERS_WAITING = 64

/** Builds everything; resolves when calls can be served. */
export async function createApp(options: AppOptions): Promise<App> {
  const { config, database, databaseUrl, clock, random, log } = options
  const { fixed } = config.settings
  const { dataKey: given } = config
  const dataDirectory = config.member?.sharedDirectory ?? config.dataDirectory
  const dataKey = await openDataKey({ database, dataDirectory, given, clock, random })
  let onSlotRegained = () => {}
  const slot = await claimSlot({
    database,
    lowBalanceMicrocents: fixed.lowBalanceMicrocents,
    connect: () => openSession(databaseUrl, clock, 'tollgate slot'),
    clock,
    log,
    alone: options.alone,
    onRegained: () => onSlotRegained(),
    onLost: options.onFatal,
  })
  await slot.reclaim()
  // Whoever had this slot before is dead.
  await freeAbandoned(database, slot.number, [])
  await preparePartitions(database, clock.now())

  const http = createHttp(clock)
  const memory = new ByteBudget(LARGE_ANSWERS_BYTES, LARGE_ANSWERS_WAITING)
  const vectors = createVectorWork(log)
  const clients = createUpstreamClients({ http, clock, log, vectors, environment: config.environment() })
  const dress = options.videos?.dress ?? ((upstream: Upstream) => upstream)
  const clientFor: ClientFor = (settings) => dress(clients.clientFor(settings))
  const catalog = await startLiveCatalog({
    clock,
    log,
    settings: config.settings,
    discovered: options.discovered,
    source: config.source,
    stamp: config.stamp,
    beforeActivate: (next) => storePrices(database, next, clock.now()),
    afterActivate: (next) => keepClients(clients, next, log),
  })

  const mailer = fixed.smtp === null ? null : createMailer(fixed.smtp, clock)
  const courier = createCourier({ database, clock, log, mailer })
  const telemetry = fixed.otlp === null ? null : await openOtlp({ ...fixed.otlp, clock, log })
  const lifecycle = createLifecycle()
  const metrics = createMetrics({
    openRequests: () => lifecycle.openRequests,
    waitingCalls: () => money.waitingCalls,
    unpostedCharges: () => writer.backlog,
    oldestUnpostedSeconds: () => writer.oldestAgeMs / 1_000,
    wallets: () => money.wallets.size,
    heldMicrocents: () => sumOf(money, (wallet) => wallet.heldMicrocents),
    allottedMicrocents: () => sumOf(money, (wallet) => wallet.grantedMicrocents - wallet.postedMicrocents),
    waitingRefills: () => writer.waitingRefills,
    waitingTokenCounts: () => tokenCounter.waiting,
    targets: () => healthOf(catalog.current(), clientFor, health),
    largeAnswerBytes: () => memory.takenBytes,
    waitingLargeAnswers: () => memory.waiting,
    isLimitStoreAway: () => limits.isStoreAway(),
    isReady: () => lifecycle.isAdmitting() && slot.isOwned(),
    queues: wireQueues({ database, clock, log }),
  })
  const { writer, money } = wireMoney({
    database,
    slot,
    clock,
    random,
    log,
    metrics,
    catalog: () => catalog.current(),
    lowBalanceMicrocents: fixed.lowBalanceMicrocents,
    onNoticed: courier.wake,
  })
  onSlotRegained = money.forgetAllotments

  const authenticator = createAuthenticator({
    database,
    clock,
    report: (error) => log.warn({ err: error }, 'a key could not be looked up'),
  })
  const listener = openListener(databaseUrl, {
    clock,
    channels: {
      ...authenticator.channels,
      [RECALL_CHANNEL]: money.hearRecall,
      [SUBSCRIPTION_CHANNEL]: money.hearSubscription,
    },
    onConfirmed: (confirmed) => {
      authenticator.onConfirmed(confirmed)
      if (confirmed) money.recallAll()
    },
  })

  const answers = openArtifacts(fixed.artifacts, 'answers', dataDirectory, { clock, random })
  const { isAbandoned } = slot
  const attempts = createAttempts({
    database,
    clock,
    random,
    log,
    slot: slot.number,
    isAbandoned,
    dataKey,
    artifacts: answers,
    onAsked: metrics.idempotent,
  })
  const limits = wireLimits({
    clock,
    random,
    log,
    openRequestsPerKey: fixed.openRequestsPerKey,
    redisUrl: config.redisUrl,
    onSkipped: metrics.limitSkipped,
  })
  const allowed = parseNetworks(fixed.webhooks.allow)
  const deliverer = await wireDeliverer(fixed.webhooks, allowed, {
    database,
    clock,
    random,
    log,
    dataKey,
    onAttempt: metrics.webhookAttempted,
    onSettled: metrics.webhookSettled,
  })
  const follower = createFollower({ database, clock, log, isStopping: () => !lifecycle.isAdmitting() })

  const health = new Health(clock, fixed.breakerFailures)
  const tokenCounter = createTokenCounter(log)
  const paid = {
    clock,
    log,
    money,
    catalog: () => catalog.current(),
    health,
    random: () => fractionOf(random(4)),
    targets: (served: Served) => targetsOf(served, catalog.current(), clientFor),
    metrics,
    ...(telemetry === null ? {} : { telemetry }),
  }
  const videos: VideoDependencies = {
    ...paid,
    database,
    random,
    upstream(name) {
      const settings = catalog.current().upstreams.get(name)
      return settings === undefined ? null : clientFor(settings)
    },
    artifacts: openArtifacts(fixed.artifacts, 'videos', dataDirectory, { clock, random }),
    measureSeconds: options.videos?.measureSeconds ?? measureSeconds,
    publish: publishEvent,
    lowBalanceMicrocents: fixed.lowBalanceMicrocents,
    onNoticed: courier.wake,
  }
  const videoRunner = runVideos(videos)
  const handle = createRouter({
    edge: {
      clock,
      log,
      random,
      lifecycle,
      authenticate: authenticator.authenticate,
      rateLimiter: limits.rateLimiter,
      rateLimit: fixed.rateLimit,
      newRateLimit: fixed.newRateLimit,
      clientAddress: createClientAddress(fixed.trustedProxies),
      bodyLimitBytes: fixed.bodyLimitBytes,
      turns: createTurns(),
      isDatabaseAway: isConnectionFailure,
      onAnswered: metrics.answered,
    },
    attempts,
    compat: fixed.compat,
    openRequests: limits.openRequests,
    memory,
    clock,
    log,
    catalog: () => catalog.current(),
    chat: { ...paid, tokenCounter },
    images: paid,
    embeddings: { ...paid, vectors, countTokens: tokenCounter.count },
    videos: { ...videos, wake: videoRunner.wake },
    database,
    webhooks: { database, clock, random, dataKey, forgetAnswer, allowed, follower },
  })

  for (const settings of catalog.current().upstreams.values()) clients.clientFor(settings)
  const stopWorkers = startWorkers({
    database,
    clock,
    log,
    slot,
    catalog,
    clients,
    money,
    courier,
    attempts,
    answers,
    videos,
    retentionDays: fixed.retentionDays,
    onDisagreements: metrics.disagreed,
  })

  deliverer.start()

  return {
    catalog,
    handle,
    handleAdmin: adminPort(metrics, {
      database,
      clock,
      isAdmitting: lifecycle.isAdmitting,
      ownsSlot: slot.isOwned,
      oldestUnpostedMs: () => writer.oldestAgeMs,
    }),
    async drain() {
      lifecycle.close()
      await lifecycle.drained()
      await writer.drain()
    },
    async close() {
      stopWorkers()
      await videoRunner.stop()
      limits.close()
      catalog.close()
      await Promise.all([
        clients.close(),
        listener.close(),
        slot.release(),
        tokenCounter.close(),
        courier.close(),
        deliverer.close(),
        telemetry?.close(),
        vectors.close(),
      ])
      http.close()
    },
  }
}

/** Four random bytes as a number from 0 up to, and without, 1. */
function fractionOf(bytes: Uint8Array): number {
  return new DataView(bytes.buffer, bytes.byteOffset).getUint32(0) / 2 ** 32
}
