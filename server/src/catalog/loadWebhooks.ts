import { resolve } from 'node:path'
import { z } from 'zod'
import { parseNetwork } from '../lib/networks.ts'
import type { Path, Report } from './document.ts'
import type { SettingsContext } from './loadRemote.ts'
import { DEFAULT_FIXED_SETTINGS, type WebhookSettings } from './settings.ts'
import { closed, label, seconds, whole } from './shape.ts'

/** A delivery must be over long before its event is dropped, after 30 days. */
const RETRY_SECONDS_MAX = 2 * 86_400
const RETRIES_MAX = 10
const NETWORKS_MAX = 100
/** One row of the database has the instants of all of a minute. */
const TESTS_PER_MINUTE_MAX = 600
/** Each event counts those that are pending, up to the setting. */
const PENDING_MAX = 100_000

/** The section `webhooks` as it stands in the file. */
export const WebhooksShape = closed({
  allow: z.array(z.string()).max(NETWORKS_MAX).optional(),
  ca_file: label.optional(),
  retry_seconds: z.array(seconds(1, RETRY_SECONDS_MAX)).max(RETRIES_MAX).optional(),
  tests_per_minute: whole(1, TESTS_PER_MINUTE_MAX).optional(),
  pending_deliveries: whole(1, PENDING_MAX).optional(),
}).optional()

/** Reads where webhooks may go, whom they trust, and when they are tried again. */
export function loadWebhooks(
  read: NonNullable<z.infer<typeof WebhooksShape>>,
  path: Path,
  context: SettingsContext,
  report: Report,
): WebhookSettings {
  const defaults = DEFAULT_FIXED_SETTINGS.webhooks
  for (const [index, entry] of (read.allow ?? []).entries()) {
    if (parseNetwork(entry) === null) report([...path, 'allow', index], NETWORK_HINT)
  }
  const caFile = read.ca_file === undefined ? null : resolve(context.directory, read.ca_file)
  if (caFile !== null && !context.fileExists(caFile)) report([...path, 'ca_file'], 'there is no such file')
  return {
    allow: read.allow ?? defaults.allow,
    caFile,
    retryMs: read.retry_seconds?.map((each) => Math.round(each * 1_000)) ?? defaults.retryMs,
    testsPerMinute: read.tests_per_minute ?? defaults.testsPerMinute,
    pendingMost: read.pending_deliveries ?? defaults.pendingMost,
  }
}

const NETWORK_HINT = 'must be a network or an address, such as 127.0.0.0/8'
