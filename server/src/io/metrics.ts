import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { labelledCounter, labelledHistogram } from './labelledMetrics.ts'
import { createQueueGauges, createWorkMetrics, type QueueFigures, type WorkMetrics } from './workMetrics.ts'

/** Buckets, in seconds, for what a gateway adds (sub-millisecond) up to what a long answer takes (minutes). */
const CALL_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]
const COMMIT_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5]
const BATCH_CHARGES = [1, 2, 5, 10, 20, 50, 100, 200, 500]

/** What a gauge is read from when somebody asks. */
export interface Gauges {
  openRequests(): number
  waitingCalls(): number
  unpostedCharges(): number
  oldestUnpostedSeconds(): number
  /** Organizations whose money this process works with now. */
  wallets(): number
  /** What open calls have set aside, and what is allotted to this process in all. Micro-cents. */
  heldMicrocents(): number
  allottedMicrocents(): number
  /** Organizations whose account is to be asked as soon as the statement under way has ended. */
  waitingRefills(): number
  /** Answers whose tokens are still to be counted here, since their upstream reported none. */
  waitingTokenCounts(): number
  /** What large answers take of the memory that is for them, and the calls that wait for some. */
  largeAnswerBytes(): number
  waitingLargeAnswers(): number
  isReady(): boolean
  isLimitStoreAway(): boolean
  /** Each target that is offered: the calls it has open, and whether its breaker is closed. */
  targets(): Iterable<{
    readonly upstream: string
    readonly model: string
    readonly open: number
    readonly isWell: boolean
  }>
  /** What waits in the database; null where that can't be told now. Never rejects, and soon resolves. */
  queues(): Promise<QueueFigures | null>
}

/** The Prometheus metrics of one process. Labels hold routes, codes and upstream names, never anything a client wrote. */
export interface Metrics extends WorkMetrics {
  answered(route: string, status: number, milliseconds: number): void
  firstToken(milliseconds: number): void
  attempt(upstream: string, outcome: string, milliseconds: number): void
  /** A target was asked beside another that had been silent for long. */
  hedged(upstream: string): void
  /** `cachedTokens` are a part of the prompt's. */
  tokens(model: string, promptTokens: number, completionTokens: number, cachedTokens: number): void
  /** Images were charged for. */
  images(model: string, count: number): void
  /** A video was charged for. */
  videoCharged(model: string, seconds: number, costMicrocents: bigint): void
  /** A call was charged: how it ended, what it cost, and the time from its admission until the charge was durable. */
  charged(model: string, outcome: string, costMicrocents: bigint, milliseconds: number): void
  /** A call could not be admitted from memory: so long it took until it was admitted or refused. */
  waitedForMoney(milliseconds: number): void
  refusedForMoney(code: string): void
  posted(charges: number, milliseconds: number): void
  buried(): void
  /** The verification of the books has found so many disagreements. */
  disagreed(count: number): void
  unreadable(): void
  /** A plan's meter could not be read, and a call counts as pay-as-you-go. */
  planUnreadable(): void
  /** A request was let through without its rate limit, because the store is away. */
  limitSkipped(): void
  text(): Promise<string>
  readonly contentType: string
}

export function createMetrics(gauges: Gauges): Metrics {
  const registry = new Registry()
  const registers = [registry]
  const histogram = (name: string, help: string, buckets: number[]) => new Histogram({ name, help, buckets, registers })
  const counter = (name: string, help: string, labelNames: string[] = []) =>
    new Counter({ name, help, labelNames, registers })
  const planUnreadable = counter(
    'tollgate_plan_meters_unreadable_total',
    "Calls charged as pay-as-you-go because their plan's meter could not be read.",
  )
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read())
      },
    })
  const requests = labelledHistogram(
    registry,
    {
      name: 'tollgate_request_duration_seconds',
      help: 'Time from a request to its response; for streams to the first byte.',
      labelNames: ['route', 'status'],
    },
    CALL_SECONDS,
  )
  const first = histogram(
    'tollgate_first_token_seconds',
    'Time from a streamed chat request to its first token.',
    CALL_SECONDS,
  )
  const attempts = labelledHistogram(
    registry,
    {
      name: 'tollgate_upstream_attempt_duration_seconds',
      help: 'Calls to upstreams, by how they ended.',
      labelNames: ['upstream', 'outcome'],
    },
    CALL_SECONDS,
  )
  const tokens = labelledCounter(registry, {
    name: 'tollgate_tokens_total',
    help: 'Tokens charged for; the class cached_prompt is a part of the class prompt.',
    labelNames: ['model', 'class'],
  })
  const images = counter('tollgate_images_total', 'Images charged for.', ['model'])
  const charges = labelledHistogram(
    registry,
    {
      name: 'tollgate_charged_call_duration_seconds',
      help: 'Time from the admission of a call until its charge was durable, by how the call ended.',
      labelNames: ['model', 'outcome'],
    },
    CALL_SECONDS,
  )
  const charged = labelledCounter(registry, {
    name: 'tollgate_charged_microcents_total',
    help: 'What was charged, in micro-cents.',
    labelNames: ['model', 'outcome'],
  })
  const waits = histogram(
    'tollgate_money_wait_seconds',
    'Time that calls spent asking the database or waiting for other calls before they were admitted or refused.',
    CALL_SECONDS,
  )
  const refusals = counter('tollgate_money_refusals_total', 'Calls refused for want of money, by code.', ['code'])
  const batches = histogram('tollgate_charge_batch_size', 'Charges posted in one transaction.', BATCH_CHARGES)
  const commits = histogram(
    'tollgate_charge_commit_seconds',
    'Time until a batch of charges was known to be posted, retries included.',
    COMMIT_SECONDS,
  )
  const dead = counter(
    'tollgate_dead_charges_total',
    'Charges that the database refused and that an operator must look at. Alert on any increase.',
  )
  const disagreements = counter(
    'tollgate_ledger_disagreements_total',
    'Disagreements that the daily verification of the books has found. Alert on any increase.',
  )
  const unreadable = counter(
    'tollgate_gates_unreadable_total',
    'Calls refused or cut because the gates on money could not be read.',
  )
  const hedges = counter('tollgate_hedged_calls_total', 'Calls sent to a second target beside a silent one.', [
    'upstream',
  ])
  const targetGauge = (name: string, help: string, read: (target: { open: number; isWell: boolean }) => number) =>
    new Gauge({
      name,
      help,
      labelNames: ['upstream', 'model'],
      registers,
      collect() {
        this.reset()
        for (const target of gauges.targets()) {
          this.set({ upstream: target.upstream, model: target.model }, read(target))
        }
      },
    })
  targetGauge('tollgate_target_up', '0 while a target is left alone because it failed.', ({ isWell }) =>
    isWell ? 1 : 0,
  )
  targetGauge('tollgate_target_open_calls', 'Calls that a target is asked or answering.', ({ open }) => open)
  const limitSkipped = counter(
    'tollgate_rate_limits_skipped_total',
    'Requests let through without their rate limit, because the store that processes share is away.',
  )
  const { videoSeconds, ...work } = createWorkMetrics(registry)
  const showQueues = createQueueGauges(registry)
  gauge('tollgate_limit_store_up', '0 while that store is away; 1 also where none is needed.', () =>
    gauges.isLimitStoreAway() ? 0 : 1,
  )
  gauge('tollgate_open_requests', 'Requests under way.', gauges.openRequests)
  gauge('tollgate_calls_waiting_for_money', 'Calls that wait for another to give money back.', gauges.waitingCalls)
  gauge('tollgate_unposted_charges', 'Charges not yet known to be durable.', gauges.unpostedCharges)
  gauge('tollgate_oldest_unposted_charge_seconds', 'Age of the oldest of them.', gauges.oldestUnpostedSeconds)
  gauge('tollgate_wallets', 'Organizations whose money this process works with.', gauges.wallets)
  gauge('tollgate_held_microcents', 'What open calls have set aside, in micro-cents.', gauges.heldMicrocents)
  gauge('tollgate_allotted_microcents', 'What is allotted to this process, in micro-cents.', gauges.allottedMicrocents)
  gauge('tollgate_waiting_refills', 'Organizations whose account is to be asked next.', gauges.waitingRefills)
  gauge('tollgate_waiting_token_counts', 'Answers whose tokens are still to be counted.', gauges.waitingTokenCounts)
  gauge('tollgate_large_answer_bytes', 'Memory taken by answers over a MiB, of 256 MiB.', gauges.largeAnswerBytes)
  gauge('tollgate_waiting_large_answers', 'Large answers that wait for memory.', gauges.waitingLargeAnswers)
  gauge('tollgate_ready', '1 while calls can be served.', () => (gauges.isReady() ? 1 : 0))
  gauge('tollgate_resident_memory_bytes', 'Resident memory of the process.', () => process.memoryUsage.rss())

  return {
    ...work,
    answered: (route, status, milliseconds) => requests(route, status, milliseconds / 1_000),
    firstToken: (milliseconds) => first.observe(milliseconds / 1_000),
    attempt: (upstream, outcome, milliseconds) => attempts(upstream, outcome, milliseconds / 1_000),
    tokens: (model, promptTokens, completionTokens, cachedTokens) => {
      tokens(model, 'prompt', promptTokens)
      if (cachedTokens > 0) tokens(model, 'cached_prompt', cachedTokens)
      tokens(model, 'completion', completionTokens)
    },
    images: (model, count) => images.inc({ model }, count),
    videoCharged: (model, seconds, costMicrocents) => {
      videoSeconds(model, seconds)
      charged(model, 'completed', Number(costMicrocents))
    },
    charged: (model, outcome, costMicrocents, milliseconds) => {
      charges(model, outcome, milliseconds / 1_000)
      charged(model, outcome, Number(costMicrocents))
    },
    waitedForMoney: (milliseconds) => waits.observe(milliseconds / 1_000),
    refusedForMoney: (code) => refusals.inc({ code }),
    posted: (count, milliseconds) => {
      batches.observe(count)
      commits.observe(milliseconds / 1_000)
    },
    buried: () => dead.inc(),
    disagreed: (count) => disagreements.inc(count),
    unreadable: () => unreadable.inc(),
    planUnreadable: () => planUnreadable.inc(),
    limitSkipped: () => limitSkipped.inc(),
    hedged: (upstream) => hedges.inc({ upstream }),
    async text() {
      showQueues(await gauges.queues())
      return registry.metrics()
    },
    contentType: registry.contentType,
  }
}
