/**
 * The order of the house: who may import whom. Every import of `server/src` is held against these tables by
 * `tidy.test.ts`; ARCHITECTURE.md tells the reasons.
 */

/**
 * For each domain the others whose nouns and verbs it may import. `kernel` and `io` are open to all of them, and what is
 * not in this table is refused: a new domain gets a line here.
 */
export const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  kernel: [],
  io: [],
  organizations: [],
  catalog: [],
  keys: ['organizations'],
  // How models are reached. Knows the catalog's settings of upstreams, and nothing of money.
  upstream: ['catalog'],
  // Charges what was used: of `upstream` it needs the noun for that, and no more.
  money: ['organizations', 'catalog', 'keys', 'upstream/spec.ts'],
  // Which target answers. Below the paid domains and beside money, which it must not know.
  routing: ['catalog', 'upstream'],
  // What all paid calls have in common, whatever the endpoint: between money and routing, and below the endpoints.
  paid: ['catalog', 'money', 'upstream', 'routing'],
  // What was answered to requests with an Idempotency-Key. Knows no endpoint, and nothing of money.
  idempotency: [],
  // What every request passes. No endpoint, so that none's rules get in here; of paid calls, who makes one.
  edge: ['keys', 'money', 'idempotency', 'paid/caller.ts'],
  // What organizations are told of their money.
  notices: ['organizations', 'money'],
  billing: ['organizations', 'catalog', 'keys', 'money'],
  usage: ['organizations', 'catalog', 'keys', 'money'],
  preflight: ['organizations', 'catalog', 'keys', 'money', 'billing'],
  webhooks: ['organizations', 'keys'],
  operations: ['keys'],
  chat: ['organizations', 'catalog', 'keys', 'money', 'upstream', 'routing', 'paid'],
  embeddings: ['organizations', 'catalog', 'keys', 'money', 'upstream', 'routing', 'paid'],
  images: ['organizations', 'catalog', 'keys', 'money', 'upstream', 'routing', 'paid'],
  videos: ['organizations', 'catalog', 'keys', 'money', 'upstream', 'routing', 'paid', 'webhooks', 'operations'],
}

/** No domains: pure helpers, and what touches the machine. */
export const NO_DOMAIN: ReadonlySet<string> = new Set(['kernel', 'io'])

/**
 * What wires the domains together, lowest first: each may import those before it, and every domain. Their stores too,
 * since they hand queries to verbs as arguments.
 */
const WIRING: readonly (readonly string[])[] = [
  ['config.ts', 'config'],
  ['billingRoutes.ts', 'videoRoutes.ts', 'webhookRoutes.ts'],
  ['routes.ts', 'workers.ts', 'readiness.ts', 'firstStart.ts'],
  ['publicPort.ts'],
  ['app.ts', 'app'],
  ['commands'],
  ['main.ts'],
]

/** Only here may a domain's `http.ts` be imported. */
export const ROUTES: ReadonlySet<string> = new Set([
  'routes.ts',
  'billingRoutes.ts',
  'videoRoutes.ts',
  'webhookRoutes.ts',
])

/** The first folder below `server/src`, or the file's own name at its top. */
export function roomOf(path: string): string {
  return path.split('/')[0] ?? path
}

/** The place in the order of the wiring; null for a domain. */
export function wiringRank(path: string): number | null {
  const rank = WIRING.findIndex((rooms) => rooms.includes(roomOf(path)))
  return rank < 0 ? null : rank
}
