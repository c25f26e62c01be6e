/**
 * The order of the house: who may import whom. Every import of `server/src` is held against these tables by
 * `tidy.test.ts`; ARCHITECTURE.md tells the reasons.
 */

/** The imports of each endpoint of inference. The endpoints never import each other. */
const BELOW_ENDPOINTS = ['catalog', 'billing/admission', 'billing/charges', 'providers', 'inference/call']

/**
 * For each room the others that it imports, in the order
 * `lib ← infra ← {http, processes, jobs} ← identity ← catalog ← (providers ← routing) | billing`; webhooks above identity;
 * then inference, payments and videos, and operations ← instances. `lib` and `infra` are open to all rooms, `http` to their `http.ts`,
 * `routes.ts` and `open.ts`. A room that is not in this table is refused, and so is a pair that no import needs: add the
 * line that you use, if it keeps the order.
 */
export const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  lib: [],
  infra: [],
  // The installation's keys: which processes have them, which are in use, and how they rotate.
  'http/dataKeys': [],
  // Kept answers to requests with an Idempotency-Key. Knows no endpoint, and nothing of money.
  'http/idempotency': ['http/dataKeys'],
  // The steps that every request passes. Knows no endpoint.
  http: ['http/idempotency'],
  processes: [],
  jobs: [],
  identity: [],
  // The change, and who made it.
  'identity/audit': [],
  'identity/organizations': ['identity/audit'],
  'identity/keys': ['identity/audit'],
  'identity/accounts': ['jobs', 'identity/organizations', 'identity/keys', 'identity/audit'],
  catalog: [],
  // Knows the catalog's settings of providers, and nothing of money.
  providers: ['catalog'],
  // Chooses the target that answers. Below the paid endpoints and beside billing, which it must not know.
  routing: ['catalog', 'providers'],
  // Opens its parts.
  billing: ['identity/audit', 'catalog', 'processes'],
  'billing/plans': ['catalog'],
  'billing/admission': ['catalog', 'billing/plans', 'processes'],
  'billing/charges': ['catalog', 'billing/plans', 'billing/admission'],
  'billing/ledger': [
    'identity/organizations',
    'identity/keys',
    'catalog',
    'billing/plans',
    'billing/admission',
    'billing/charges',
    'billing/statements',
  ],
  // The limits that an admin sets are in the audit log.
  'billing/limits': ['identity/audit', 'billing/admission'],
  'billing/usage': [],
  'billing/statements': ['catalog'],
  // The messages to organizations about their money.
  'billing/notices': ['jobs', 'billing/admission'],
  webhooks: ['http/idempotency', 'jobs', 'identity/audit'],
  // Money that comes in: through billing's ledger alone.
  payments: [
    'jobs',
    'identity/audit',
    'catalog',
    'billing/plans',
    'billing/admission',
    'billing/ledger',
    'billing/notices',
  ],
  // The steps that all paid calls share: above billing and routing, and below the endpoints.
  'inference/call': ['catalog', 'billing/admission', 'billing/charges', 'providers', 'routing'],
  // Opens its parts.
  inference: ['catalog', 'providers'],
  'inference/chat': ['http/idempotency', ...BELOW_ENDPOINTS, 'routing'],
  'inference/embeddings': BELOW_ENDPOINTS,
  'inference/images': BELOW_ENDPOINTS,
  'inference/preflight': ['catalog', 'billing/plans', 'billing/admission', 'billing/charges'],
  videos: ['http/idempotency', 'jobs', 'catalog', 'billing/admission', 'billing/charges', 'providers', 'routing'],
  operations: [],
  // Machines that are rented, made by drivers.
  instances: [
    'jobs',
    'identity/audit',
    'catalog',
    'billing/admission',
    'billing/charges',
    'billing/notices',
    'operations',
  ],
}

/** Returns the sentence of a room's README that says whom it may import, beside `http/` in the files where requests come in. */
export function mayImportLine(room: string): string {
  const open = room === 'lib' ? [] : [...OPEN_TO_ALL].filter((each) => each !== room)
  const names = [...open, ...(MAY_IMPORT[room] ?? [])].map((each) => `\`${each}/\``)
  const last = names.pop()
  if (last === undefined) return '**May import** nothing of `server/src` outside this folder.'
  return `**May import** ${names.length === 0 ? last : `${names.join(', ')} and ${last}`}.`
}

/** Open to all rooms: pure helpers, and what touches the machine. */
export const OPEN_TO_ALL: ReadonlySet<string> = new Set(['lib', 'infra'])

/**
 * The files that wire the rooms together, lowest first: each may import those before it, and every room. Their stores
 * too, since they hand queries to verbs as arguments. A file that is not named stands with its folder.
 */
const WIRING: readonly (readonly string[])[] = [
  ['config'],
  ['app/readiness.ts', 'app/firstStart.ts'],
  ['app/router.ts'],
  ['app'],
  ['commands'],
  ['main.ts'],
]

/** Files of `http/` that every room above it may import: types, refusals and the order of rights, with nothing of a request in them. */
const HTTP_NOUNS: ReadonlySet<string> = new Set(['http/principal.ts'])

/** Returns whether a file of a room stands where requests come in: it may import `http/`. */
export function isHttpFile(path: string): boolean {
  return path.endsWith('/http.ts') || path.endsWith('/routes.ts')
}

/** The room that a file of `server/src` is in: two folders where the table has them, else the first, or a file at the top. */
export function roomOf(path: string): string {
  const [first = '', second = ''] = path.split('/')
  const inner = `${first}/${second}`
  return MAY_IMPORT[inner] === undefined ? first : inner
}

/** The file or folder of the wiring that a path belongs to; null for a room. */
export function wiredAs(path: string): string | null {
  const names = WIRING.flat()
  if (names.includes(path)) return path
  const [folder = ''] = path.split('/')
  return names.includes(folder) ? folder : null
}

/** The place in the order of the wiring; null for a room. */
export function wiringRank(path: string): number | null {
  const name = wiredAs(path)
  return name === null ? null : WIRING.findIndex((names) => names.includes(name))
}

/** Returns whether a room's `open.ts` imports from beneath its own folder: it wires the room, stores and parts and all. */
export function isRoomOpener(from: string, to: string): boolean {
  return from.endsWith('/open.ts') && to.startsWith(from.slice(0, -'open.ts'.length))
}

/** Returns whether an import between rooms breaks the order of {@link MAY_IMPORT}, known or not. */
export function breaksOrder(from: string, to: string): boolean {
  const [room, target] = [roomOf(from), roomOf(to)]
  if (wiringRank(from) !== null || room === target || target === 'lib') return false
  if (target === 'infra') return room === 'lib'
  if (isRoomOpener(from, to)) return false
  if (target === 'http') return !isHttpFile(from) && !from.endsWith('/open.ts') && !HTTP_NOUNS.has(to)
  return !(MAY_IMPORT[room] ?? []).includes(target)
}

/** Returns the pairs of {@link MAY_IMPORT}, as `room → other`, that none of `imports` needs. */
export function unusedPairs(imports: readonly (readonly [from: string, to: string])[]): string[] {
  const used = new Set(imports.map(([from, to]) => `${roomOf(from)} → ${roomOf(to)}`))
  const pairs = Object.entries(MAY_IMPORT).flatMap(([room, others]) => others.map((other) => `${room} → ${other}`))
  return pairs.filter((pair) => !used.has(pair))
}
