import { type ApiKeyAccess, apiKey } from '../http/access.ts'
import { MANAGE, type Route } from '../http/route.ts'
import { refusal } from '../lib/errors.ts'
import { refused } from '../lib/result.ts'

const notEnabled = refusal('not_found', 'This endpoint is not enabled on this server.')
const noDeposits = refusal('not-found', 'Stablecoin deposits are not enabled on this server.')
const noSubscriptions = refusal('payment-source-unavailable', 'Subscriptions are not configured on this server.')

/** Returns the routes that this server does not have by its settings. Key and scope are checked all the same (B7). */
export function routesNotEnabled({
  hasPayments,
  hasDeposits,
  hasInstances,
  hasApps,
}: {
  readonly hasPayments: boolean
  readonly hasDeposits: boolean
  readonly hasInstances: boolean
  /** Apps of instances answer at hosts of their own. */
  readonly hasApps: boolean
}): Route[] {
  const off = (
    method: 'GET' | 'PUT' | 'POST' | 'DELETE',
    path: string,
    access: ApiKeyAccess,
    refusal = notEnabled,
  ): Route =>
    method === 'GET'
      ? { method, path, access, isQueryOpen: true, handle: () => refusal }
      : { method, path, access, isQueryOpen: true, prepare: () => refused(refusal) }
  const managed = (route: Route): Route => ({ ...route, base: MANAGE })
  const payments = [
    managed(off('POST', '/top-ups', apiKey('billing:write'))),
    managed(off('GET', '/payments', apiKey('billing:read'))),
    managed(off('GET', '/payments/{id}', apiKey('billing:read'))),
    managed(off('GET', '/auto-pay', apiKey('billing:read', 'admin'))),
    managed(off('PUT', '/auto-pay', apiKey('billing:write', 'admin'))),
    off('POST', '/billing/subscription/checkout', apiKey('billing:write', 'admin'), noSubscriptions),
    off('POST', '/billing/subscription/portal', apiKey('billing:write', 'admin'), noSubscriptions),
  ]
  const instances = [
    off('GET', '/operations/{id}', apiKey('any')),
    off('GET', '/instances/offerings', apiKey('instances:read')),
    off('GET', '/instances', apiKey('instances:read')),
    off('POST', '/instances', apiKey('instances:write')),
    off('GET', '/instances/{id}', apiKey('instances:read')),
    off('DELETE', '/instances/{id}', apiKey('instances:write')),
  ]
  const apps = [off('POST', '/instances/{id}/app-password', apiKey('instances:write'))]
  const deposits = [
    off('GET', '/billing/deposits', apiKey('billing:read'), noDeposits),
    off('POST', '/billing/deposits/crypto', apiKey('billing:write'), noDeposits),
    off('GET', '/billing/deposits/{id}', apiKey('billing:read'), noDeposits),
  ]
  return [
    ...(hasPayments ? [] : payments),
    ...(hasInstances ? [] : instances),
    ...(hasApps ? [] : apps),
    ...(hasDeposits ? [] : deposits),
  ]
}
