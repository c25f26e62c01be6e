import type { Noter } from '../identity/audit/note.ts'
import { readAuthorities } from '../infra/authorities.ts'
import { systemResolve } from '../infra/dns.ts'
import { createHttp } from '../infra/httpClient/client.ts'
import type { Metrics } from '../infra/metrics.ts'
import type { Database, Queryable, Transaction } from '../infra/postgres/database.ts'
import { inWorkGauge } from '../jobs/gauge.ts'
import type { DataKeys } from '../lib/dataKeys.ts'
import type { Refusal } from '../lib/errors.ts'
import type { RandomBytes } from '../lib/ids.ts'
import type { Log } from '../lib/log.ts'
import { parseNetworks } from '../lib/networks.ts'
import { type Clock, MINUTE_MS } from '../lib/time.ts'
import { createDeliverer } from './deliveries/deliver.ts'
import { holdEndpoint } from './endpoints/store.ts'
import { createFollower } from './events/follow.ts'
import type { SendLimits } from './log/refuseToSend.ts'
import { sweepWebhooks } from './log/sweep.ts'
import { webhookRoutes } from './routes.ts'

/** A customer whose hosts swallow packets must not use up this machine's file descriptors: 50 endpoints make 200. */
const GIVEN_UP_MOST = 4

export interface WebhooksOptions {
  readonly database: Database
  /** For reads whose clients wait. */
  readonly reads: Queryable
  readonly clock: Clock
  readonly random: RandomBytes
  readonly log: Log
  readonly metrics: Metrics
  readonly dataKeys: DataKeys
  /** Deletes the kept answer of an idempotent attempt. */
  readonly forgetAnswer: (tx: Transaction, attempt: string) => Promise<void>
  /** Writes changes into the audit log. */
  readonly noter: Noter
  readonly settings: {
    /** Networks that endpoints may be in beside public ones. */
    readonly allow: readonly string[]
    /** Certificates to trust in place of the system's; null: the system's. */
    readonly caFile: string | null
    readonly retryMs: readonly number[]
  } & SendLimits
  /** Returns the refusal of organizations that are neither funded nor entitled; null for others. */
  readonly refuseUnfunded: (organizationId: string) => Promise<Refusal | null>
  /** True once the server is to stop: streams of events end then. */
  readonly isStopping: () => boolean
}

/** Opens the room of webhooks, and begins to deliver. Rejects when the file of certificates can't be read. */
export async function openWebhooks(options: WebhooksOptions) {
  const { settings, isStopping, metrics, forgetAnswer, noter, refuseUnfunded, ...shared } = options
  const { database, clock, log } = shared
  const { allow, caFile, retryMs } = settings
  const allowed = parseNetworks(allow)
  const authorities = caFile === null ? {} : { authorities: await readAuthorities(caFile) }
  const deliverer = createDeliverer({
    ...shared,
    // A client of its own: customers' servers take no connection from providers.
    http: createHttp(clock, { idleMs: 0, givenUpMost: GIVEN_UP_MOST, ...authorities }),
    resolve: systemResolve,
    allowed,
    retryMs,
    onAttempt: metrics.webhookAttempted,
    onSettled: metrics.webhookSettled,
    metrics,
  })
  const follower = createFollower({ database: shared.reads, clock, log, isStopping })
  deliverer.start()
  return {
    routes: webhookRoutes({
      ...shared,
      forgetAnswer,
      noter,
      holdEndpoint,
      allowed,
      follower,
      limits: settings,
      refuseUnfunded,
    }),
    periodicTasks: [
      {
        name: 'webhooks',
        everyMs: MINUTE_MS,
        run: (stopping: () => boolean) => sweepWebhooks({ database, clock }, stopping),
      },
    ],
    metrics: [inWorkGauge(deliverer)],
    close: () => deliverer.close(),
  }
}
