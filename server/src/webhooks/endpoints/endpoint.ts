import { refusal } from '../../lib/errors.ts'
import type { EventType } from '../events/event.ts'

/** Where an organization wants to be told of events. Its secret is apart: it is shown once. */
export interface WebhookEndpoint {
  readonly id: string
  readonly organizationId: string
  readonly url: string
  readonly eventTypes: readonly EventType[]
  readonly enabled: boolean
  readonly createdAtMs: number
}

/** Of one organization (W1). */
export const ENDPOINTS_MOST = 50

/** Endpoints of one organization with the same URL: an old one and the new one that takes its place, with another secret. */
export const SAME_URL_MOST = 2

/** Returns whether two URLs lead to the same place: their fragments are never sent. */
export function isSameUrl(one: string, other: string): boolean {
  return withoutFragment(one) === withoutFragment(other)
}

function withoutFragment(text: string): string {
  const url = new URL(text)
  url.hash = ''
  return url.href
}

export const NO_ENDPOINT = refusal(
  'not_found',
  'There is no such webhook endpoint; GET /v1/webhook-endpoints lists them.',
)
