import type { FixedSettings } from '../catalog/settings.ts'
import { type ApiKeyAccess, apiKey, fullKeyOrSession, publicAccess } from '../http/access.ts'
import { MANAGE, type Route } from '../http/route.ts'
import { refusal } from '../lib/errors.ts'
import { refused } from '../lib/result.ts'

const notEnabled = refusal('not_found', 'This endpoint is not enabled on this server.')
const noDeposits = refusal('not-found', 'Stablecoin deposits are not enabled on this server.')
const noSubscriptions = refusal('payment-source-unavailable', 'Subscriptions are not configured on this server.')

type Method = 'GET' | 'PUT' | 'POST' | 'PATCH' | 'DELETE'

/** Returns the routes that this server does not have by its settings. Key and scope are checked all the same (B7). */
export function routesNotEnabled({
  payments,
  deposits,
  instances,
  accounts,
}: Pick<FixedSettings, 'payments' | 'deposits' | 'instances' | 'accounts'>): Route[] {
  return [
    ...(payments === null ? paymentsOff() : []),
    ...(instances === null ? instancesOff() : []),
    ...(instances === null || instances.access === null ? appsOff() : []),
    ...(deposits === null ? depositsOff() : []),
    ...(accounts === null ? accountsOff() : []),
  ]
}

function paymentsOff(): Route[] {
  return [
    managed(off('POST', '/top-ups', apiKey('billing:write'))),
    managed(off('GET', '/payments', apiKey('billing:read'))),
    managed(off('GET', '/payments/{id}', apiKey('billing:read'))),
    managed(off('GET', '/auto-pay', apiKey('billing:read', 'admin'))),
    managed(off('PUT', '/auto-pay', apiKey('billing:write', 'admin'))),
    off('POST', '/billing/subscription/checkout', apiKey('billing:write', 'admin'), noSubscriptions),
    off('POST', '/billing/subscription/portal', apiKey('billing:write', 'admin'), noSubscriptions),
  ]
}

function instancesOff(): Route[] {
  return [
    off('GET', '/operations/{id}', apiKey('any')),
    off('GET', '/instances/offerings', apiKey('instances:read')),
    off('GET', '/instances', apiKey('instances:read')),
    off('POST', '/instances', apiKey('instances:write')),
    off('GET', '/instances/{id}', apiKey('instances:read')),
    off('DELETE', '/instances/{id}', apiKey('instances:write')),
  ]
}

function appsOff(): Route[] {
  return [off('POST', '/instances/{id}/app-password', apiKey('instances:write'))]
}

function depositsOff(): Route[] {
  return [
    off('GET', '/billing/deposits', apiKey('billing:read'), noDeposits),
    off('POST', '/billing/deposits/crypto', apiKey('billing:write'), noDeposits),
    off('GET', '/billing/deposits/{id}', apiKey('billing:read'), noDeposits),
  ]
}

/** The routes for operators are not among them: whoever is no operator hears of none. Routes for sessions alone take any key. */
function accountsOff(): Route[] {
  return [
    ...['/keys', '/members', '/invitations', '/organization', '/audit'].map((path) => offFull('GET', path)),
    ...['/keys', '/keys/{id}/rotate', '/invitations'].map((path) => offFull('POST', path)),
    ...['/keys/{id}', '/members/{id}', '/organization'].map((path) => offFull('PATCH', path)),
    ...['/keys/{id}', '/members/{id}', '/invitations/{id}'].map((path) => offFull('DELETE', path)),
    managed(off('DELETE', '/key', apiKey('any'))),
    managed(off('DELETE', '/organization', apiKey('any'))),
    managed(off('GET', '/session', apiKey('any'))),
    managed(off('PATCH', '/session', apiKey('any'))),
    managed(off('GET', '/sessions', apiKey('any'))),
    managed(off('DELETE', '/sessions/{id}', apiKey('any'))),
    managed(off('GET', '/account/export', apiKey('any'))),
    managed(off('PUT', '/account/erasure', apiKey('any'))),
    offForAll('/device/code'),
    offForAll('/device/token'),
  ]
}

function managed(route: Route): Route {
  return { ...route, base: MANAGE }
}

function off(method: Method, path: string, access: ApiKeyAccess, refusal = notEnabled): Route {
  return method === 'GET'
    ? { method, path, access, isQueryOpen: true, handle: () => refusal }
    : { method, path, access, isQueryOpen: true, prepare: () => refused(refusal) }
}

/** Of the management interface, for admins' keys that have every scope. */
function offFull(method: Method, path: string): Route {
  const shared = { base: MANAGE, path, access: fullKeyOrSession('member'), isQueryOpen: true } as const
  return method === 'GET'
    ? { ...shared, method, handle: () => notEnabled }
    : { ...shared, method, prepare: () => refused(notEnabled) }
}

/** Of the management interface, for everybody. */
function offForAll(path: string): Route {
  return { base: MANAGE, method: 'POST', path, access: publicAccess, isQueryOpen: true, handle: () => notEnabled }
}
