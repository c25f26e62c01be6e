import type { Attributes, Context, Span, SpanOptions } from '@opentelemetry/api'
import type { Log } from '../kernel/log.ts'
import type { CallTrace, Telemetry, TracedCall, TracedStep } from '../kernel/telemetry.ts'
import { type Clock, SECOND_MS, sleep } from '../kernel/time.ts'
import { callAttributes, endAttributes } from './otlpAttributes.ts'

/** Spans that wait to be sent; more are dropped, so that a collector that is away costs no memory. */
const MAX_WAITING_SPANS = 4_096
const MAX_SPANS_AT_ONCE = 512
const SEND_EVERY_MS = 5 * SECOND_MS
const METRICS_EVERY_MS = 30 * SECOND_MS
const SEND_TIMEOUT_MS = 10 * SECOND_MS
/** How long the end of the process waits for a last export. */
const CLOSE_MS = 3 * SECOND_MS
/** Time series of one metric; the labels are models and upstreams of the settings. */
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
 * that who does not ask for them does not pay for them. The header of a credential is the standard's own variable,
 * `OTEL_EXPORTER_OTLP_HEADERS`, which the exporters read.
 */
export async function openOtlp(options: OtlpOptions): Promise<Telemetry> {
  const [api, resources, traces, metrics, { OTLPTraceExporter }, { OTLPMetricExporter }] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/resources'),
    import('@opentelemetry/sdk-trace'),
    import('@opentelemetry/sdk-metrics'),
    import('@opentelemetry/exporter-trace-otlp-http'),
    import('@opentelemetry/exporter-metrics-otlp-http'),
  ])
  const { endpoint, traceRatio, clock, log } = options
  const resource = resources.resourceFromAttributes({ 'service.name': 'tollgate' })
  const ratio = new traces.TraceIdRatioBasedSampler(traceRatio)
  const spanExporter = new OTLPTraceExporter({ url: `${endpoint}/v1/traces`, timeoutMillis: SEND_TIMEOUT_MS })
  const metricExporter = new OTLPMetricExporter({ url: `${endpoint}/v1/metrics`, timeoutMillis: SEND_TIMEOUT_MS })
  tellFailures(spanExporter, 'traces', log)
  tellFailures(metricExporter, 'metrics', log)
  const ids = new traces.RandomIdGenerator()
  /** While a span of a job is begun that has no parent: the trace that it is part of. */
  let jobTrace: string | null = null
  const tracing = new traces.TracerProvider({
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
        exporter: spanExporter,
        maxQueueSize: MAX_WAITING_SPANS,
        maxExportBatchSize: MAX_SPANS_AT_ONCE,
        scheduledDelayMillis: SEND_EVERY_MS,
        exportTimeoutMillis: SEND_TIMEOUT_MS,
      }),
    ],
  })
  const metering = new metrics.MeterProvider({
    resource,
    readers: [
      new metrics.PeriodicExportingMetricReader({
        exporter: metricExporter,
        exportIntervalMillis: METRICS_EVERY_MS,
        exportTimeoutMillis: SEND_TIMEOUT_MS,
        cardinalityLimits: { default: MAX_SERIES },
      }),
    ],
  })
  const meter = metering.getMeter('tollgate')
  const histogram = (name: string, unit: string, description: string, explicitBucketBoundaries: number[]) =>
    meter.createHistogram(name, { unit, description, advice: { explicitBucketBoundaries } })
  const calls = histogram('gen_ai.server.request.duration', 's', 'Time of whole calls.', SECONDS)
  const firstTokens = histogram('gen_ai.server.time_to_first_token', 's', 'Time to the first token.', SECONDS)
  const attempts = histogram('gen_ai.client.operation.duration', 's', 'Time of calls to upstreams.', SECONDS)
  const tokens = histogram('gen_ai.client.token.usage', '{token}', 'Tokens of calls that were charged.', TOKENS)
  const tracer = tracing.getTracer('tollgate')
  const startSpan = (name: string, given: SpanOptions, context: Context, job: string | null): Span => {
    jobTrace = job?.replaceAll('-', '') ?? null
    const span = tracer.startSpan(name, given, context)
    jobTrace = null
    return span
  }

  const begin = (call: TracedCall): CallTrace => {
    const startTime = clock.now()
    const startedMs = clock.monotonicMs()
    const elapsedMs = () => clock.monotonicMs() - startedMs
    const common = {
      'gen_ai.operation.name': call.operation,
      'gen_ai.provider.name': 'tollgate',
      'gen_ai.request.model': call.model,
    }
    const parent = remoteContext(call.traceparent)
    const given = { kind: api.SpanKind.SERVER, startTime, attributes: { ...common, ...callAttributes(call) } }
    const name = `${call.operation} ${call.model}`
    const span = startSpan(name, given, parent ?? api.ROOT_CONTEXT, call.job?.id ?? null)
    const inside = api.trace.setSpan(api.ROOT_CONTEXT, span)
    return {
      attempt(upstream, model, outcome, milliseconds) {
        const attributes: Attributes = {
          'gen_ai.operation.name': call.operation,
          'gen_ai.provider.name': upstream,
          'gen_ai.request.model': model,
        }
        if (outcome !== 'answered') attributes['error.type'] = outcome
        attempts.record(milliseconds / SECOND_MS, attributes)
        const endTime = startTime + elapsedMs()
        const at = { kind: api.SpanKind.CLIENT, startTime: endTime - milliseconds, attributes }
        const child = tracer.startSpan(`${call.operation} ${model}`, at, inside)
        if (outcome !== 'answered' && outcome !== 'cancelled') child.setStatus({ code: api.SpanStatusCode.ERROR })
        child.end(endTime)
      },
      firstToken: () => firstTokens.record(elapsedMs() / SECOND_MS, common),
      end(end) {
        const failed: Attributes = end.error === null ? {} : { 'error.type': end.error }
        calls.record(elapsedMs() / SECOND_MS, { ...common, ...failed })
        if (end.usage !== null) {
          tokens.record(end.usage.promptTokens, { ...common, 'gen_ai.token.type': 'input' })
          // Embeddings put none out, which is not the same as few.
          if (call.operation === 'chat')
            tokens.record(end.usage.completionTokens, { ...common, 'gen_ai.token.type': 'output' })
        }
        if (end.error !== null && end.error !== 'cancelled') span.setStatus({ code: api.SpanStatusCode.ERROR })
        span.setAttributes({ ...failed, ...endAttributes(call.operation === 'chat', end) })
        span.end(startTime + elapsedMs())
      },
    }
  }

  /** The client's own trace goes on in ours. */
  const remoteContext = (traceparent: string | null): Context | null => {
    const [, traceId, spanId, flags] = TRACEPARENT.exec(traceparent ?? '') ?? []
    if (traceId === undefined || spanId === undefined) return null
    const context = { traceId, spanId, traceFlags: Number.parseInt(flags ?? '0', 16), isRemote: true }
    return api.isSpanContextValid(context) ? api.trace.setSpanContext(api.ROOT_CONTEXT, context) : null
  }

  const step = ({ job, step: what, upstream, model, outcome, elapsedMs }: TracedStep): void => {
    const isFailed = outcome !== 'answered'
    const attributes: Attributes = {
      'gen_ai.operation.name': 'generate_content',
      'gen_ai.provider.name': upstream,
      'gen_ai.request.model': model,
      'tollgate.video.step': what,
      ...(isFailed ? { 'error.type': outcome } : {}),
    }
    attempts.record(elapsedMs / SECOND_MS, attributes)
    const endTime = clock.now()
    const given = { kind: api.SpanKind.CLIENT, startTime: endTime - elapsedMs }
    const named = { ...given, attributes: { ...attributes, 'tollgate.video.id': job } }
    const span = startSpan(`${what} ${model}`, named, api.ROOT_CONTEXT, job)
    if (isFailed && outcome !== 'cancelled') span.setStatus({ code: api.SpanStatusCode.ERROR })
    span.end(endTime)
  }

  return {
    begin,
    step,
    async close() {
      const sent = Promise.allSettled([tracing.shutdown(), metering.shutdown()])
      await Promise.race([sent, sleep(clock, CLOSE_MS)])
    },
  }
}

/** Version 00 of W3C Trace Context. */
const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/

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
