import type * as Api from '@opentelemetry/api'
import type { Attributes, Context, Histogram, Span, SpanOptions } from '@opentelemetry/api'
import type { CallEnd, CallTrace, Telemetry, TracedCall, TracedStep } from '../lib/telemetry.ts'
import { type Clock, SECOND_MS } from '../lib/time.ts'
import { callAttributes, endAttributes } from './otlpAttributes.ts'

/** Begins a span. `job` is the id of a job: a span that has no parent is part of the trace of that id. */
export type StartSpan = (name: string, given: SpanOptions, context: Context, job: string | null) => Span

/** The histograms that calls count in: times in seconds, and tokens. */
export interface CallHistograms {
  readonly calls: Histogram
  readonly firstTokens: Histogram
  readonly attempts: Histogram
  readonly tokens: Histogram
}

/** Version 00 of W3C Trace Context. */
const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/

/** Writes calls and steps of jobs as spans and into histograms. Loads no package: all it needs is handed in. */
export class TracedCalls implements Pick<Telemetry, 'begin' | 'step'> {
  private readonly api: typeof Api
  private readonly clock: Clock
  private readonly startSpan: StartSpan
  private readonly histograms: CallHistograms

  constructor(api: typeof Api, clock: Clock, startSpan: StartSpan, histograms: CallHistograms) {
    this.api = api
    this.clock = clock
    this.startSpan = startSpan
    this.histograms = histograms
  }

  begin(call: TracedCall): CallTrace {
    const { api, clock } = this
    const startTime = clock.now()
    const startedMs = clock.monotonicMs()
    const elapsedMs = () => clock.monotonicMs() - startedMs
    const common = {
      'gen_ai.operation.name': call.operation,
      'gen_ai.provider.name': 'tollgate',
      'gen_ai.request.model': call.model,
    }
    const parent = this.remoteContext(call.traceparent)
    const given = { kind: api.SpanKind.SERVER, startTime, attributes: { ...common, ...callAttributes(call) } }
    const name = `${call.operation} ${call.model}`
    const span = this.startSpan(name, given, parent ?? api.ROOT_CONTEXT, call.job?.id ?? null)
    const inside = api.trace.setSpan(api.ROOT_CONTEXT, span)
    return {
      attempt: (provider, model, outcome, milliseconds) => {
        const attributes: Attributes = {
          'gen_ai.operation.name': call.operation,
          'gen_ai.provider.name': provider,
          'gen_ai.request.model': model,
        }
        if (outcome !== 'answered') attributes['error.type'] = outcome
        this.histograms.attempts.record(milliseconds / SECOND_MS, attributes)
        const endTime = startTime + elapsedMs()
        const at = { kind: api.SpanKind.CLIENT, startTime: endTime - milliseconds, attributes }
        const child = this.startSpan(`${call.operation} ${model}`, at, inside, null)
        if (outcome !== 'answered' && outcome !== 'cancelled') child.setStatus({ code: api.SpanStatusCode.ERROR })
        child.end(endTime)
      },
      firstToken: () => this.histograms.firstTokens.record(elapsedMs() / SECOND_MS, common),
      end: (end) => {
        const failed: Attributes = end.error === null ? {} : { 'error.type': end.error }
        this.histograms.calls.record(elapsedMs() / SECOND_MS, { ...common, ...failed })
        this.countTokens(call, common, end.usage)
        if (end.error !== null && end.error !== 'cancelled') span.setStatus({ code: api.SpanStatusCode.ERROR })
        span.setAttributes({ ...failed, ...endAttributes(call.operation === 'chat', end) })
        span.end(startTime + elapsedMs())
      },
    }
  }

  step({ job, step, provider, model, outcome, elapsedMs }: TracedStep): void {
    const { api } = this
    const isFailed = outcome !== 'answered'
    const attributes: Attributes = {
      'gen_ai.operation.name': 'generate_content',
      'gen_ai.provider.name': provider,
      'gen_ai.request.model': model,
      'tollgate.video.step': step,
      ...(isFailed ? { 'error.type': outcome } : {}),
    }
    this.histograms.attempts.record(elapsedMs / SECOND_MS, attributes)
    const endTime = this.clock.now()
    const given = { kind: api.SpanKind.CLIENT, startTime: endTime - elapsedMs }
    const named = { ...given, attributes: { ...attributes, 'tollgate.video.id': job } }
    const span = this.startSpan(`${step} ${model}`, named, api.ROOT_CONTEXT, job)
    if (isFailed && outcome !== 'cancelled') span.setStatus({ code: api.SpanStatusCode.ERROR })
    span.end(endTime)
  }

  private countTokens(call: TracedCall, common: Attributes, usage: CallEnd['usage']): void {
    if (usage === null) return
    this.histograms.tokens.record(usage.promptTokens, { ...common, 'gen_ai.token.type': 'input' })
    // Embeddings have no output tokens, which is not the same as few.
    if (call.operation !== 'chat') return
    this.histograms.tokens.record(usage.completionTokens, { ...common, 'gen_ai.token.type': 'output' })
  }

  /** The client's own trace goes on in ours. Null: it has none, or none that is valid. */
  private remoteContext(traceparent: string | null): Context | null {
    const { api } = this
    const [, traceId, spanId, flags] = TRACEPARENT.exec(traceparent ?? '') ?? []
    if (traceId === undefined || spanId === undefined) return null
    const context = { traceId, spanId, traceFlags: Number.parseInt(flags ?? '0', 16), isRemote: true }
    return api.isSpanContextValid(context) ? api.trace.setSpanContext(api.ROOT_CONTEXT, context) : null
  }
}
