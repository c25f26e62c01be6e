import { z } from 'zod'
import { eventStream, STREAM_HEADERS } from '../../http/eventStream.ts'
import type { Handle } from '../../http/pipeline.ts'
import type { KeyOrSession } from '../../http/principal.ts'
import { HEADER_BRAND } from '../../lib/brand.ts'
import { signalWith } from '../../lib/callSignal.ts'
import type { Clock } from '../../lib/time.ts'
import { EVENT_TYPES } from './event.ts'
import type { Follower } from './follow.ts'
import type { FollowedEvent } from './store.ts'

/** For a client that comes back before it has seen an event: what it then sends as Last-Event-ID. */
export const STREAM_START = `${HEADER_BRAND}-Stream-Start`

/** A comment, by which a client knows at once that it listens: the first event may be hours away. */
const OPENING = ': listening\n\n'

/** The schema of an event, as a stream sends it in `data` and a delivery in its body. */
export const webhookEvent = z
  .object({
    id: z.string().meta({ format: 'uuid' }),
    type: z.enum(EVENT_TYPES),
    created_at: z.string().meta({ format: 'date-time' }),
    data: z.looseObject({}),
  })
  .meta({ id: 'Event' })

export const lastEventId = z.object({
  'Last-Event-ID': z.string().optional().meta({
    description:
      'The id of the last event that you received, or the value of the header `Svc-Stream-Start` of an earlier stream.',
  }),
})

/** GET /manage/v1/events. */
export function showEvents(follower: Follower, clock: Clock): Handle<KeyOrSession> {
  return async (call) => {
    const gone = signalWith(call.request.signal)
    const lastId = call.request.headers.get('Last-Event-ID') || null
    const { isStillAllowed } = call
    const following = await follower.follow(call.principal.organizationId, lastId, {
      gone,
      isStillAllowed,
    })
    if (!following.ok) return following.refusal
    const { events, start } = following.value
    const stream = eventStream(events, toWire, { clock, gone, onEnd: call.holdOpen(), opening: OPENING })
    return new Response(stream, { headers: { ...STREAM_HEADERS, [STREAM_START]: start } })
  }
}

/** The data is the body of its deliveries, byte for byte: JSON has no line breaks. */
function toWire({ id, type, body }: FollowedEvent): string {
  return `id: ${id}\nevent: ${type}\ndata: ${body}\n\n`
}
