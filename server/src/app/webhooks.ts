/** Part of `app.ts`: what delivers to customers' servers. */

import type { WebhookSettings } from '../catalog/settings.ts'
import { readAuthorities } from '../io/authorities.ts'
import { systemResolve } from '../io/dns.ts'
import { createHttp } from '../io/http/client.ts'
import { createDeliverer, type DeliverDependencies, type Deliverer } from '../webhooks/deliveries/deliver.ts'

type Parts = Omit<DeliverDependencies, 'http' | 'resolve' | 'allowed' | 'retryMs'>

/** A customer whose hosts swallow packets must not use up this machine's file descriptors: 50 endpoints make 200. */
const GIVEN_UP_MOST = 4

/** Not started yet. */
export async function wireDeliverer(
  { caFile, retryMs }: WebhookSettings,
  allowed: DeliverDependencies['allowed'],
  parts: Parts,
): Promise<Deliverer> {
  const authorities = caFile === null ? {} : { authorities: await readAuthorities(caFile) }
  return createDeliverer({
    ...parts,
    // A client of its own: customers' servers take no connection from upstreams.
    http: createHttp(parts.clock, { idleMs: 0, givenUpMost: GIVEN_UP_MOST, ...authorities }),
    resolve: systemResolve,
    allowed,
    retryMs,
  })
}
