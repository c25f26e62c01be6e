import { type RandomBytes, toHex } from '../../lib/ids.ts'
import { toTimestamp } from '../../lib/time.ts'

/** The types of events that endpoints may subscribe to. */
export const EVENT_TYPES = [
  'instance.creating',
  'instance.running',
  'instance.terminated',
  'instance.failed',
  'video.completed',
  'video.failed',
] as const

export type EventType = (typeof EVENT_TYPES)[number]

/** Something that happened, to be told to whoever subscribed to its type. */
export interface PublishedEvent {
  /** A UUID: the event's for ever, in every delivery and every retry. */
  readonly id: string
  readonly organizationId: string
  readonly type: EventType
  /** Milliseconds since the epoch. */
  readonly createdAtMs: number
  /** JSON, such as `{ video: { … } }`. */
  readonly data: object
}

/** The body of its deliveries: written once, so that every attempt sends and signs the same bytes. */
export function bodyOf({ id, type, createdAtMs, data }: PublishedEvent): string {
  return JSON.stringify({ id, type, created_at: toTimestamp(createdAtMs), data })
}

/** Of an endpoint, or of one `tollgate listen`: 64 lower-case hex characters (W2). */
export function newSecret(random: RandomBytes): string {
  return toHex(random(32))
}
