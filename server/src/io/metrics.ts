import { Counter, Gauge, Histogram, Registry } from 'prom-client'

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
  isReady(): boolean
}

/** The Prometheus metrics of one process. Labels hold routes, codes and upstream names, never anything a client wrote. */
export interface Metrics {
  answered(route: string, status: number, milliseconds: number): void
  firstToken(milliseconds: number): void
  attempt(upstream: string, outcome: string, milliseconds: number): void
  tokens(model: string, promptTokens: number, completionTokens: number): void
  posted(charges: number, milliseconds: number): void
  buried(): void
  /** The verification of the books has found so many disagreements. */
  disagreed(count: number): void
  unreadable(): void
  /** A plan's meter could not be read, and a call counts as pay-as-you-go. */
  planUnreadable(): void
  text(): Promise<string>
  readonly contentType: string
}

export function createMetrics(gauges: Gauges): Metrics {
  const registry = new Registry()
  const registers = [registry]
  const requests = new Histogram({
    name: 'tollgate_request_duration_seconds',
    help: 'Time from a request to its response; for streams to the first byte.',
    labelNames: ['route', 'status'],
    buckets: CALL_SECONDS,
    registers,
  })
  const requestsOf = childrenOf(requests, (route: string, status: number) => ({ route, status: String(status) }))
  const first = new Histogram({
    name: 'tollgate_first_token_seconds',
    help: 'Time from a streamed chat request to its first token.',
    buckets: CALL_SECONDS,
    registers,
  })
  const attempts = new Histogram({
    name: 'tollgate_upstream_attempt_duration_seconds',
    help: 'Calls to upstreams, by how they ended.',
    labelNames: ['upstream', 'outcome'],
    buckets: CALL_SECONDS,
    registers,
  })
  const tokens = new Counter({
    name: 'tollgate_tokens_total',
    help: 'Tokens charged for.',
    labelNames: ['model', 'class'],
    registers,
  })
  const attemptsOf = childrenOf(attempts, (upstream: string, outcome: string) => ({ upstream, outcome }))
  const tokensOf = childrenOf(tokens, (model: string, kind: string) => ({ model, class: kind }))
  const batches = new Histogram({
    name: 'tollgate_charge_batch_size',
    help: 'Charges posted in one transaction.',
    buckets: BATCH_CHARGES,
    registers,
  })
  const commits = new Histogram({
    name: 'tollgate_charge_commit_seconds',
    help: 'Time until a batch of charges was known to be posted, retries included.',
    buckets: COMMIT_SECONDS,
    registers,
  })
  const dead = new Counter({
    name: 'tollgate_dead_charges_total',
    help: 'Charges that the database refused and that an operator must look at. Alert on any increase.',
    registers,
  })
  const disagreements = new Counter({
    name: 'tollgate_ledger_disagreements_total',
    help: 'Disagreements that the daily verification of the books has found. Alert on any increase.',
    registers,
  })
  const unreadable = new Counter({
    name: 'tollgate_gates_unreadable_total',
    help: 'Calls refused or cut because the gates on money could not be read.',
    registers,
  })
  const planUnreadable = new Counter({
    name: 'tollgate_plan_meters_unreadable_total',
    help: "Calls charged as pay-as-you-go because their plan's meter could not be read.",
    registers,
  })
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read())
      },
    })
  gauge('tollgate_open_requests', 'Requests under way.', gauges.openRequests)
  gauge('tollgate_calls_waiting_for_money', 'Calls that wait for another to give money back.', gauges.waitingCalls)
  gauge('tollgate_unposted_charges', 'Charges not yet known to be durable.', gauges.unpostedCharges)
  gauge('tollgate_oldest_unposted_charge_seconds', 'Age of the oldest of them.', gauges.oldestUnpostedSeconds)
  gauge('tollgate_ready', '1 while calls can be served.', () => (gauges.isReady() ? 1 : 0))
  gauge('tollgate_resident_memory_bytes', 'Resident memory of the process.', () => process.memoryUsage.rss())

  return {
    answered: (route, status, milliseconds) => requestsOf(route, status).observe(milliseconds / 1_000),
    firstToken: (milliseconds) => first.observe(milliseconds / 1_000),
    attempt: (upstream, outcome, milliseconds) => attemptsOf(upstream, outcome).observe(milliseconds / 1_000),
    tokens: (model, promptTokens, completionTokens) => {
      tokensOf(model, 'prompt').inc(promptTokens)
      tokensOf(model, 'completion').inc(completionTokens)
    },
    posted: (charges, milliseconds) => {
      batches.observe(charges)
      commits.observe(milliseconds / 1_000)
    },
    buried: () => dead.inc(),
    disagreed: (count) => disagreements.inc(count),
    unreadable: () => unreadable.inc(),
    planUnreadable: () => planUnreadable.inc(),
    text: () => registry.metrics(),
    contentType: registry.contentType,
  }
}

/** The child of a metric for two labels, found by one string: hashing labels costs more than observing. */
function childrenOf<Child, A extends string, B extends string | number>(
  metric: { labels(labels: Record<string, string>): Child },
  labelsOf: (a: A, b: B) => Record<string, string>,
): (a: A, b: B) => Child {
  const children = new Map<string, Child>()
  return (a, b) => {
    const name = `${a} ${b}`
    let child = children.get(name)
    if (child === undefined) {
      child = metric.labels(labelsOf(a, b))
      children.set(name, child)
    }
    return child
  }
}
