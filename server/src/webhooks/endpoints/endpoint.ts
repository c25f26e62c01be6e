import { refusal } from '../../kernel/errors.ts'
import type { EventType } from '../event.ts'

/** Where an organization wants to be told of events. Its secret is apart: it is shown once. */
export interface Endpoint {
  readonly id: string
  readonly organizationId: string
  readonly url: string
  readonly eventTypes: readonly EventType[]
  readonly enabled: boolean
  readonly createdAtMs: number
}

/** Of one organization (W1). */
export const ENDPOINTS_MOST = 50

export const NO_ENDPOINT = refusal(
  'not_found',
  'There is no such webhook endpoint; GET /v1/webhook-endpoints lists them.',
)
