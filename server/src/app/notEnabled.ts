import type { FixedSettings } from '../catalog/settings.ts'
import {
  anyKeyOrSession,
  apiKeyOrSession,
  fullKeyOrSession,
  type KeyOrSessionAccess,
  publicAccess,
} from '../http/access.ts'
import { MANAGE, type Route } from '../http/route.ts'
import { refusal } from '../lib/errors.ts'
import { refused } from '../lib/result.ts'

const notEnabled = refusal('not_found', 'This endpoint is not enabled on this server.')
const noDeposits = refusal('not-found', 'Stablecoin deposits are not enabled on this server.')
const noSubscriptions = refusal('payment-source-unavailable', 'Subscriptions are not configured on this server.')

/** Nothing is asked of the rest of a request: the answer does not depend on it. */
const OPEN = { isQueryOpen: true, ignoresBody: true } as const

type Method = 'GET' | 'PUT' | 'POST' | 'PATCH' | 'DELETE'

/** Returns the routes that this server does not have by its settings. The caller, and its scope or role, are checked all the same (B7). */
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
    managed(off('POST', '/top-ups', apiKeyOrSession('billing:write', 'member'))),
    managed(off('GET', '/payments', apiKeyOrSession('billing:read', 'member'))),
    managed(off('GET', '/payments/{id}', apiKeyOrSession('billing:read', 'member'))),
    managed(off('GET', '/auto-pay', apiKeyOrSession('billing:read', 'admin'))),
    managed(off('PUT', '/auto-pay', apiKeyOrSession('billing:write', 'admin'))),
    off('POST', '/billing/subscription/checkout', apiKeyOrSession('billing:write', 'admin'), noSubscriptions),
    off('POST', '/billing/subscription/portal', apiKeyOrSession('billing:write', 'admin'), noSubscriptions),
  ]
}

function instancesOff(): Route[] {
  return [
    off('GET', '/operations/{id}', anyKeyOrSession),
    off('GET', '/instances/offerings', apiKeyOrSession('instances:read', 'member')),
    off('GET', '/instances', apiKeyOrSession('instances:read', 'member')),
    off('POST', '/instances', apiKeyOrSession('instances:write', 'member')),
    off('GET', '/instances/{id}', apiKeyOrSession('instances:read', 'member')),
    off('DELETE', '/instances/{id}', apiKeyOrSession('instances:write', 'member')),
  ]
}

function appsOff(): Route[] {
  return [off('POST', '/instances/{id}/app-password', apiKeyOrSession('instances:write', 'member'))]
}

function depositsOff(): Route[] {
  return [
    off('GET', '/billing/deposits', apiKeyOrSession('billing:read', 'member'), noDeposits),
    off('POST', '/billing/deposits/crypto', apiKeyOrSession('billing:write', 'member'), noDeposits),
    off('GET', '/billing/deposits/{id}', apiKeyOrSession('billing:read', 'member'), noDeposits),
  ]
}

/** The routes for operators are not among them: whoever is no operator hears of none. Routes for sessions alone take any key. */
function accountsOff(): Route[] {
  return [
    ...['/keys', '/members', '/invitations', '/organization', '/audit'].map((path) => offFull('GET', path)),
    ...['/keys', '/keys/{id}/rotate', '/invitations'].map((path) => offFull('POST', path)),
    ...['/keys/{id}', '/members/{id}', '/organization'].map((path) => offFull('PATCH', path)),
    ...['/keys/{id}', '/members/{id}', '/invitations/{id}'].map((path) => offFull('DELETE', path)),
    managed(off('DELETE', '/key', anyKeyOrSession)),
    managed(off('DELETE', '/organization', anyKeyOrSession)),
    managed(off('GET', '/session', anyKeyOrSession)),
    managed(off('PATCH', '/session', anyKeyOrSession)),
    managed(off('GET', '/sessions', anyKeyOrSession)),
    managed(off('DELETE', '/sessions/{id}', anyKeyOrSession)),
    managed(off('GET', '/account/export', anyKeyOrSession)),
    managed(off('PUT', '/account/erasure', anyKeyOrSession)),
    offForAll('/device/code'),
    offForAll('/device/token'),
  ]
}

function managed(route: Route): Route {
  return { ...route, base: MANAGE }
}

function off(method: Method, path: string, access: KeyOrSessionAccess, refusal = notEnabled): Route {
  return method === 'GET'
    ? { method, path, access, ...OPEN, handle: () => refusal }
    : { method, path, access, ...OPEN, prepare: () => refused(refusal) }
}

/** Of the management interface, for admins' keys that have every scope. */
function offFull(method: Method, path: string): Route {
  const shared = { base: MANAGE, path, access: fullKeyOrSession('member'), ...OPEN } as const
  return method === 'GET'
    ? { ...shared, method, handle: () => notEnabled }
    : { ...shared, method, prepare: () => refused(notEnabled) }
}

/** Of the management interface, for everybody. */
function offForAll(path: string): Route {
  return { base: MANAGE, method: 'POST', path, access: publicAccess, ...OPEN, handle: () => notEnabled }
}
