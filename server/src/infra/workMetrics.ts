import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import { labelledHistogram } from './labelledMetrics.ts'

/** Kinds whose label is another word. */
const OUTCOMES: Readonly<Record<string, string>> = { inProgress: 'in_progress', noRoom: 'no_room' }

/** Ends that alarms watch: they are shown as 0 before the first of them, so that it is an increase. */
const WATCHED_VIDEO_OUTCOMES = ['upstream_error', 'upstream_timeout', 'invalid_output', 'internal_error']

/**
 * The buckets for work behind requests: from a claim (sub-millisecond), over a delivery, to a video that waited for
 * hours.
 */
const CLAIM_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5]
const DELIVERY_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 7_200, 14_400]
const VIDEO_SECONDS = [0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 5_400, 7_200, 10_800]

/** Of an attempt at a delivery: the status of its answer, or why none came. */
interface WebhookOutcome {
  readonly status: number | null
  readonly failure: string | null
}

/** The state of a delivery after an attempt: `pending` is tried again. */
interface SettledDelivery {
  readonly state: 'pending' | 'delivered' | 'dead'
  /** From its event to its delivery; null where it is none, or was asked for again. */
  readonly sinceEventMs: number | null
}

/** The counts of jobs, of video jobs among them, of webhooks and of requests with an Idempotency-Key. */
export interface WorkMetrics {
  /** A runner has claimed so many items of a kind. */
  jobsClaimed(kind: string, count: number): void
  /** The work on an item has ended: `succeeded`, `failed` (tried again), `dead` (not), `lost` (another's now) or `stopped`. */
  jobEnded(kind: string, outcome: string): void
  videoCreated(model: string): void
  /** A job is over, so long after its creation: `completed`, `cancelled`, `expired`, or why it failed. */
  videoEnded(model: string, outcome: string, milliseconds: number): void
  /** Somebody looked for jobs to take up: those whose turn it is, or those that are due. */
  videosClaimed(claim: 'start' | 'due', milliseconds: number): void
  webhookAttempted(outcome: WebhookOutcome): void
  webhookSettled(settled: SettledDelivery): void
  /** A request with an Idempotency-Key has come: `begun`, `replay`, `inProgress` or `mismatch`. */
  idempotent(kind: string): void
}

/** The numbers of things that wait in the database, for all processes together. */
export interface QueueFigures {
  readonly videos: readonly {
    readonly model: string
    readonly queued: number
    /** Null: none is queued. */
    readonly oldestSeconds: number | null
    readonly underWay: number
  }[]
  /** Due deliveries; the lane `new` is of those that nobody has looked at yet. */
  readonly webhooks: readonly {
    readonly lane: 'new' | 'fast' | 'slow'
    readonly waiting: number
    readonly oldestSeconds: number | null
  }[]
  readonly slowEndpoints: number
  /** Jobs of the table that are due and that nobody works on. */
  readonly jobs: readonly {
    readonly kind: string
    readonly due: number
    readonly oldestSeconds: number
  }[]
}

export function createWorkMetrics(
  registry: Registry,
): WorkMetrics & { videoSeconds(model: string, seconds: number): void } {
  const registers = [registry]
  const counter = (name: string, help: string, labelNames: string[]) =>
    new Counter({ name, help, labelNames, registers })
  const claimed = counter('tollgate_jobs_claimed_total', 'Items of background work that this process took up.', [
    'kind',
  ])
  const jobsEnded = counter(
    'tollgate_jobs_ended_total',
    'How the work on them ended: succeeded; failed, which is tried again; dead, which is not; lost to another process; stopped.',
    ['kind', 'outcome'],
  )
  const created = counter('tollgate_videos_created_total', 'Video jobs that were accepted.', ['model'])
  const ended = labelledHistogram(
    registry,
    {
      name: 'tollgate_video_duration_seconds',
      help: 'Time from the creation of a video job to its end: completed, cancelled, expired, or why it failed.',
      labelNames: ['model', 'outcome'],
    },
    VIDEO_SECONDS,
  )
  const seconds = counter('tollgate_video_seconds_total', 'Seconds of video charged for.', ['model'])
  const claims = new Histogram({
    name: 'tollgate_video_claim_seconds',
    help: 'Time that it took to take up video jobs: those whose turn it is (start), or those that are to be looked at (due).',
    labelNames: ['claim'],
    buckets: CLAIM_SECONDS,
    registers,
  })
  const idempotent = counter(
    'tollgate_idempotent_requests_total',
    'Requests with an Idempotency-Key: carried out (begun), answered as before (replay), refused (in_progress, mismatch).',
    ['outcome'],
  )
  return {
    jobsClaimed(kind, count) {
      claimed.inc({ kind }, count)
      jobsEnded.inc({ kind, outcome: 'dead' }, 0)
    },
    jobEnded: (kind, outcome) => jobsEnded.inc({ kind, outcome }),
    videoCreated(model) {
      created.inc({ model })
      for (const outcome of WATCHED_VIDEO_OUTCOMES) ended.begin(model, outcome)
    },
    videoEnded: (model, outcome, milliseconds) => ended.add(model, outcome, milliseconds / 1_000),
    videoSeconds: (model, count) => seconds.inc({ model }, count),
    videosClaimed: (claim, milliseconds) => claims.observe({ claim }, milliseconds / 1_000),
    ...createWebhookMetrics(registry),
    idempotent: (kind) => idempotent.inc({ outcome: OUTCOMES[kind] ?? kind }),
  }
}

function createWebhookMetrics(registry: Registry): Pick<WorkMetrics, 'webhookAttempted' | 'webhookSettled'> {
  const registers = [registry]
  const counter = (name: string, help: string, labelNames: string[]) =>
    new Counter({ name, help, labelNames, registers })
  const attempts = counter(
    'tollgate_webhook_attempts_total',
    'Attempts to deliver a webhook, by the class of the answer, or by why none came.',
    ['outcome'],
  )
  const deliveries = counter(
    'tollgate_webhook_deliveries_total',
    'Webhooks by what their last attempt came to: delivered; failed, which is tried again; dead, which is not.',
    ['outcome'],
  )
  const latencies = new Histogram({
    name: 'tollgate_webhook_delivery_seconds',
    help: 'Seconds from an event to its delivery, with retries; redeliveries are not counted.',
    buckets: DELIVERY_SECONDS,
    registers,
  })
  attempts.inc({ outcome: 'internal' }, 0)
  deliveries.inc({ outcome: 'dead' }, 0)
  return {
    webhookAttempted: ({ status, failure }) =>
      attempts.inc({ outcome: failure ?? `${Math.floor((status ?? 0) / 100)}xx` }),
    webhookSettled: ({ state, sinceEventMs }) => {
      deliveries.inc({ outcome: state === 'pending' ? 'failed' : state })
      if (sinceEventMs !== null) latencies.observe(sinceEventMs / 1_000)
    },
  }
}

/** Gauges that show figures as they are given; what can't be read is left out. */
export function createQueueGauges(registry: Registry): (figures: QueueFigures | null) => void {
  const registers = [registry]
  const gauge = (name: string, help: string, labelNames: string[] = []) =>
    new Gauge({ name, help: `${help} Read from the database: every process says the same.`, labelNames, registers })
  const queued = gauge('tollgate_videos_queued', 'Video jobs that wait for their turn; 10,000 stands for more too.', [
    'model',
  ])
  const oldest = gauge(
    'tollgate_oldest_queued_video_seconds',
    'Seconds that the oldest queued video has waited; 0: none waits.',
    ['model'],
  )
  const underWay = gauge('tollgate_videos_under_way', 'Video jobs that providers have or are asked to take.', ['model'])
  const waiting = gauge(
    'tollgate_webhook_deliveries_waiting',
    'Deliveries that are due or being sent, by the lane of their endpoint, counted up to 10,000.',
    ['lane'],
  )
  const oldestWaiting = gauge('tollgate_oldest_waiting_webhook_seconds', 'How long the first of them has been due.', [
    'lane',
  ])
  const slow = gauge('tollgate_slow_webhook_endpoints', 'Endpoints in the slow lane that something is to be sent to.')
  const dueJobs = gauge('tollgate_jobs_due', 'Jobs that are due and that no process works on, counted up to 10,000.', [
    'kind',
  ])
  const oldestJob = gauge('tollgate_oldest_due_job_seconds', 'How long the first of them has been due.', ['kind'])
  return (figures) => {
    for (const each of [queued, oldest, underWay, waiting, oldestWaiting, slow, dueJobs, oldestJob]) each.reset()
    if (figures === null) {
      slow.remove()
      return
    }
    for (const video of figures.videos) {
      const { model } = video
      queued.set({ model }, video.queued)
      oldest.set({ model }, video.oldestSeconds ?? 0)
      underWay.set({ model }, video.underWay)
    }
    for (const lane of figures.webhooks) {
      waiting.set({ lane: lane.lane }, lane.waiting)
      oldestWaiting.set({ lane: lane.lane }, lane.oldestSeconds ?? 0)
    }
    slow.set(figures.slowEndpoints)
    for (const { kind, due, oldestSeconds } of figures.jobs) {
      dueJobs.set({ kind }, due)
      oldestJob.set({ kind }, oldestSeconds)
    }
  }
}
