import type { Resource } from '@opentelemetry/resources'
import type { Log } from '../lib/log.ts'
import type { Telemetry } from '../lib/telemetry.ts'
import { type Clock, SECOND_MS, sleep } from '../lib/time.ts'
import { type CallHistograms, type StartSpan, TracedCalls } from './otlpCalls.ts'

/** Spans that wait to be sent; more are dropped, so that a collector that is away costs no memory. */
const MAX_WAITING_SPANS = 4_096
const MAX_SPANS_AT_ONCE = 512
const SEND_EVERY_MS = 5 * SECOND_MS
const METRICS_EVERY_MS = 30 * SECOND_MS
const SEND_TIMEOUT_MS = 10 * SECOND_MS
/** How long the end of the process waits for a last export. */
const CLOSE_MS = 3 * SECOND_MS
/** Time series of one metric; the labels are models and providers of the settings. */
const MAX_SERIES = 2_000

const SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
const TOKENS = [1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304]

export interface OtlpOptions {
  /** Of a collector that takes OTLP over HTTP; `/v1/traces` and `/v1/metrics` are appended. */
  readonly endpoint: string
  /** The share of calls that are traced, 0 to 1; metrics have all of them. */
  readonly traceRatio: number
  readonly clock: Clock
  readonly log: Log
}

/**
 * Traces and metrics in OpenTelemetry's conventions for generative AI. The packages are loaded here and nowhere else, so
 * that a gateway without them does not pay for them. The header of a credential is the standard's own variable,
 * `OTEL_EXPORTER_OTLP_HEADERS`, which the exporters read.
 */
export async function openOtlp(options: OtlpOptions): Promise<Telemetry> {
  const [api, { resourceFromAttributes }] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/resources'),
  ])
  const resource = resourceFromAttributes({ 'service.name': 'tollgate' })
  const [tracing, metering] = await Promise.all([openTracing(options, resource), openMetering(options, resource)])
  const calls = new TracedCalls(api, options.clock, tracing.startSpan, metering.histograms)
  return {
    begin: (call) => calls.begin(call),
    step: (step) => calls.step(step),
    async close() {
      const sent = Promise.allSettled([tracing.shutdown(), metering.shutdown()])
      await Promise.race([sent, sleep(options.clock, CLOSE_MS)])
    },
  }
}

interface Tracing {
  readonly startSpan: StartSpan
  shutdown(): Promise<void>
}

async function openTracing({ endpoint, traceRatio, log }: OtlpOptions, resource: Resource): Promise<Tracing> {
  const [traces, { OTLPTraceExporter }] = await Promise.all([
    import('@opentelemetry/sdk-trace'),
    import('@opentelemetry/exporter-trace-otlp-http'),
  ])
  const ratio = new traces.TraceIdRatioBasedSampler(traceRatio)
  const exporter = new OTLPTraceExporter({ url: `${endpoint}/v1/traces`, timeoutMillis: SEND_TIMEOUT_MS })
  tellFailures(exporter, 'traces', log)
  const ids = new traces.RandomIdGenerator()
  /** While a span of a job is begun that has no parent: the trace that it is part of. */
  let jobTrace: string | null = null
  const provider = new traces.TracerProvider({
    resource,
    idGenerator: {
      generateTraceId: () => jobTrace ?? ids.generateTraceId(),
      generateSpanId: () => ids.generateSpanId(),
    },
    // A client's own decision does not bind us: it could have everything traced.
    sampler: new traces.ParentBasedSampler({ root: ratio, remoteParentSampled: ratio, remoteParentNotSampled: ratio }),
    spanLimits: { attributeCountLimit: 32, attributeValueLengthLimit: 256 },
    spanProcessors: [
      new traces.BatchSpanProcessor({
        exporter,
        maxQueueSize: MAX_WAITING_SPANS,
        maxExportBatchSize: MAX_SPANS_AT_ONCE,
        scheduledDelayMillis: SEND_EVERY_MS,
        exportTimeoutMillis: SEND_TIMEOUT_MS,
      }),
    ],
  })
  const tracer = provider.getTracer('tollgate')
  return {
    startSpan(name, given, context, job) {
      jobTrace = job?.replaceAll('-', '') ?? null
      const span = tracer.startSpan(name, given, context)
      jobTrace = null
      return span
    },
    shutdown: () => provider.shutdown(),
  }
}

interface Metering {
  readonly histograms: CallHistograms
  shutdown(): Promise<void>
}

async function openMetering({ endpoint, log }: OtlpOptions, resource: Resource): Promise<Metering> {
  const [metrics, { OTLPMetricExporter }] = await Promise.all([
    import('@opentelemetry/sdk-metrics'),
    import('@opentelemetry/exporter-metrics-otlp-http'),
  ])
  const exporter = new OTLPMetricExporter({ url: `${endpoint}/v1/metrics`, timeoutMillis: SEND_TIMEOUT_MS })
  tellFailures(exporter, 'metrics', log)
  const provider = new metrics.MeterProvider({
    resource,
    readers: [
      new metrics.PeriodicExportingMetricReader({
        exporter,
        exportIntervalMillis: METRICS_EVERY_MS,
        exportTimeoutMillis: SEND_TIMEOUT_MS,
        cardinalityLimits: { default: MAX_SERIES },
      }),
    ],
  })
  const meter = provider.getMeter('tollgate')
  const histogram = (name: string, unit: string, description: string, explicitBucketBoundaries: number[]) =>
    meter.createHistogram(name, { unit, description, advice: { explicitBucketBoundaries } })
  const histograms = {
    calls: histogram('gen_ai.server.request.duration', 's', 'Time of whole calls.', SECONDS),
    firstTokens: histogram('gen_ai.server.time_to_first_token', 's', 'Time to the first token.', SECONDS),
    attempts: histogram('gen_ai.client.operation.duration', 's', 'Time of calls to providers.', SECONDS),
    tokens: histogram('gen_ai.client.token.usage', '{token}', 'Tokens of calls that were charged.', TOKENS),
  }
  return { histograms, shutdown: () => provider.shutdown() }
}

interface Exporter<Data> {
  export(data: Data, done: (result: { readonly code: number; readonly error?: Error }) => void): void
}

/** Says in the log when exports begin to fail, and when they work again; what could not be sent is lost. */
function tellFailures<Data>(exporter: Exporter<Data>, what: string, log: Log): void {
  const send = exporter.export.bind(exporter)
  let isFailing = false
  exporter.export = (data, done) =>
    send(data, (result) => {
      const failed = result.code !== 0
      if (failed && !isFailing)
        log.warn(
          { what, reason: result.error?.name },
          'the OTLP collector does not take what is sent: check otlp.endpoint',
        )
      if (!failed && isFailing) log.info({ what }, 'the OTLP collector takes what is sent again')
      isFailing = failed
      done(result)
    })
}
