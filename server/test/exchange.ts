/** Requests for tests of the steps before a handler, and of the pipeline around them. */

import { createBodyDeadlines } from '../src/http/bodyDeadline.ts'
import { createBodyWork } from '../src/http/bodyWork.ts'
import { createLifecycle } from '../src/http/lifecycle.ts'
import { createBodyMemory } from '../src/http/limits/bodyMemory.ts'
import { createOpenRequests } from '../src/http/limits/openRequests.ts'
import { createOrganizationTurns } from '../src/http/limits/organizationTurns.ts'
import { createRateLimiter } from '../src/http/limits/rateLimit.ts'
import { createOpenCalls } from '../src/http/openCalls.ts'
import type { PendingRequest, PipelineDependencies } from '../src/http/pipeline.ts'
import type { ApiKeyPrincipal, PublicPrincipal, SessionPrincipal } from '../src/http/principal.ts'
import { splitUrl } from '../src/http/routeTable.ts'
import { ok } from '../src/lib/result.ts'
import { TurnedClock } from './clock.ts'
import { SILENCE } from './silence.ts'

export const TEST_KEY: ApiKeyPrincipal = {
  kind: 'apiKey',
  id: '00000000-0000-4000-8000-00000000000b',
  organizationId: '00000000-0000-4000-8000-00000000000e',
  scopes: { serverless: 'write', billing: 'write', webhooks: 'write', instances: 'write' },
  admin: false,
  expiresAtMs: null,
  newUntilMs: null,
}

export const TEST_SESSION: SessionPrincipal = {
  kind: 'session',
  id: '00000000-0000-4000-8000-00000000000c',
  organizationId: '00000000-0000-4000-8000-00000000000e',
  sessionId: '00000000-0000-4000-8000-00000000000f',
  signedInAtMs: 0,
  userId: '00000000-0000-4000-8000-00000000000d',
  role: 'member',
  isOperator: false,
  newUntilMs: null,
}

export const TEST_ADDRESS: PublicPrincipal = { kind: 'public', address: '192.0.2.1' }

/** Everybody has {@link TEST_KEY}, and nobody is limited. */
export function pipelineParts(more: Partial<PipelineDependencies> = {}): PipelineDependencies {
  const clock = more.clock ?? new TurnedClock()
  return {
    clock,
    log: SILENCE,
    random: (length) => new Uint8Array(length).fill(7),
    lifecycle: createLifecycle(),
    authenticate: () => ok(TEST_KEY),
    rateLimiter: createRateLimiter(clock),
    rateLimit: { perSecond: 1_000, burst: 1_000 },
    newAccountRateLimit: { perSecond: 1_000, burst: 1_000 },
    addressRateLimiter: createRateLimiter(clock),
    openRequests: createOpenRequests(100),
    readTurns: createOrganizationTurns(clock, { underWayMost: 100, waitingMost: 0, waitMostMs: 0 }),
    clientAddress: (address) => address,
    bodyLimitBytes: 65_536,
    partsMost: 100,
    bodyMemory: createBodyMemory(1 << 20, 100),
    bodyDeadlines: createBodyDeadlines(clock, 60_000),
    bodyWork: createBodyWork(SILENCE, clock),
    openCalls: createOpenCalls(),
    isCrowded: () => false,
    isDatabaseAway: () => false,
    ...more,
  }
}

/** A request to a path, such as `/v1/things?limit=1`, on its way. `idleTimeouts` are those that were set, in seconds. */
export function exchangeOf(
  path: string,
  init: RequestInit = {},
  more: Partial<PendingRequest> = {},
): PendingRequest & { readonly idleTimeouts: number[] } {
  const request = new Request(`http://gateway.test${path}`, init)
  const idleTimeouts: number[] = []
  const target = { ...splitUrl(request.url), parameters: [] }
  return {
    request,
    requestId: 'r',
    parameters: [],
    query: new URLSearchParams(),
    principal: TEST_ADDRESS,
    body: undefined,
    bytes: new Uint8Array(),
    fingerprint: new Uint8Array(),
    holdOpen: () => () => {},
    noteUnpaid: () => {},
    openCalls: createOpenCalls(),
    isStillAllowed: () => Promise.resolve(true),
    target,
    connection: { address: '192.0.2.1', setIdleTimeout: (seconds) => void idleTimeouts.push(seconds) },
    envelope: 'A',
    rate: null,
    leavePlace: null,
    bodyMemory: null,
    isCutOff: false,
    startedAtMs: 0,
    idleTimeouts,
    ...more,
  }
}
