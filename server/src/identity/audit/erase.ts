import type { Queryable } from '../../infra/postgres/database.ts'
import { eraseChanges } from './store.ts'

/**
 * The fields of entries that name nobody: they stay. A field that is not in this list is erased, so that one which is added later
 * and names somebody is erased too.
 */
const FIELDS_KEPT = [
  'admin',
  'amount_cents',
  'asset',
  'attempts_per_day',
  'auto_terminate_hours',
  'chain',
  'daily_limit_cents',
  'enabled',
  'enforcement',
  'event_types',
  'expires_at',
  'frozen',
  'gpu_count',
  'instances',
  'keys',
  'member_id',
  'members',
  'monthly_limit_cents',
  'plan_key',
  'price_per_hour_cents',
  'promotional',
  'role',
  'rotated_to',
  'save_payment_method',
  'scope',
  'source',
  'standing',
  'subscriptions',
  'threshold_cents',
  'videos',
  'webhook_endpoints',
] as const

/**
 * Erases names and addresses in at most `atMost` entries of an organization, the newest before `beforeId`. It stays what happened
 * when, and who did it to what, by ids. Returns the `beforeId` of the next call; null: there are no more. Fails while a person is
 * erased whom one of them names.
 */
export function eraseNamesInChanges(
  database: Queryable,
  organizationId: string,
  beforeId: string | null,
  atMost: number,
): Promise<string | null> {
  return eraseChanges(database, organizationId, beforeId, FIELDS_KEPT, atMost)
}
