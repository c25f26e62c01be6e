import type { CallEnd, TracedCall } from '../lib/telemetry.ts'

type Attributes = Readonly<Record<string, string | number | boolean | string[]>>

/** Returns the attributes that the span of a call has from its beginning. */
export function callAttributes(call: TracedCall): Attributes {
  return {
    'tollgate.tier': call.tier,
    'tollgate.organization.id': call.organizationId,
    'tollgate.key.id': call.keyId,
    'tollgate.stream': call.isStreamed,
    ...(call.maxTokens === null ? {} : { 'gen_ai.request.max_tokens': call.maxTokens }),
    ...(call.operation === 'generate_content'
      ? { 'gen_ai.output.type': call.job === undefined ? 'image' : 'video' }
      : {}),
    ...(call.images === undefined ? {} : { 'gen_ai.request.choice.count': call.images }),
    ...(call.job === undefined ? {} : { 'tollgate.video.id': call.job.id, 'tollgate.video.seconds': call.job.seconds }),
    ...((call.dimensions ?? null) === null ? {} : { 'gen_ai.embeddings.dimension.count': call.dimensions ?? 0 }),
    ...(call.temperature === null ? {} : { 'gen_ai.request.temperature': call.temperature }),
  }
}

/** Returns the attributes that the span gets when the call ends. */
export function endAttributes(isChat: boolean, { usage, finishReason, costMicrocents, images }: CallEnd): Attributes {
  return {
    ...(images === undefined ? {} : { 'tollgate.images': images }),
    ...(finishReason === null ? {} : { 'gen_ai.response.finish_reasons': [finishReason] }),
    ...(costMicrocents === null ? {} : { 'tollgate.cost.microcents': Number(costMicrocents) }),
    ...(usage === null
      ? {}
      : {
          'gen_ai.usage.input_tokens': usage.promptTokens,
          ...(isChat ? outputAttributes(usage) : {}),
        }),
  }
}

/** Embeddings put none out, and none of theirs are cached. */
function outputAttributes({ completionTokens, cachedPromptTokens }: NonNullable<CallEnd['usage']>): Attributes {
  return {
    'gen_ai.usage.output_tokens': completionTokens,
    'gen_ai.usage.cache_read.input_tokens': cachedPromptTokens,
  }
}
