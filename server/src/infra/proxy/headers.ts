/** The headers that a proxy hands on, and those that come back. All take and give names and values in turns, as they came. */

/** Of one connection alone (RFC 9110), and of proxies. */
const OF_ONE_CONNECTION = new Set([
  ...[
    'connection',
    'keep-alive',
    'proxy-connection',
    'proxy-authenticate',
    'proxy-authorization',
    'te',
    'trailer',
    'upgrade',
  ],
  'transfer-encoding',
])

/** A caller can't have these left out by naming them in `Connection`: a body keeps its framing, and the app gets its own cookies. */
const OF_BOTH_SIDES = new Set(['content-length', 'host', 'cookie'])

const ONCE = ['host', 'content-length'] as const

/** Headers that we alone set, and credentials that the caller shows to us alone. */
const OURS = /^(authorization|x-csrf-token|forwarded|x-forwarded-.*|x-real-ip|host|expect)$/

export type HeaderList = Record<string, string | string[]>

/** A request that is handed on. */
export interface HandedOn {
  readonly host: string
  /** True when the caller reached us by TLS. */
  readonly isSecure: boolean
  /** The cookies that are not handed on. */
  readonly isOwnCookie: (name: string) => boolean
}

/** Returns whether a request has one of the headers twice that must stand once: of two lines each server may heed another one. */
export function isTwofold(raw: readonly string[]): boolean {
  const names = pairsOf(raw).map(([name]) => name)
  return ONCE.some((name) => names.indexOf(name) !== names.lastIndexOf(name))
}

/** Returns whether the body of a request is coded in another way than in chunks: the other server would not learn of it. */
export function hasOtherCoding(raw: readonly string[]): boolean {
  const codings = pairsOf(raw).filter(([name]) => name === 'transfer-encoding')
  return codings.length > 1 || codings.some(([, value]) => value.trim().toLowerCase() !== 'chunked')
}

/** The headers of a request as the other server sees them. */
export function handedOnHeaders(raw: readonly string[], { host, isSecure, isOwnCookie }: HandedOn): HeaderList {
  const headers = keptHeaders(raw, (name) => OURS.test(name))
  const cookies = [headers['cookie'] ?? []].flat().flatMap((each) => each.split(';'))
  delete headers['cookie']
  const kept = cookies.filter((each) => each.trim() !== '' && !isOwnCookie(each.split('=')[0]?.trim() ?? ''))
  if (kept.length > 0) headers['cookie'] = kept.map((each) => each.trim()).join('; ')
  // Without a framing, the body of a GET would reach the other server as requests of its own.
  if (pairsOf(raw).some(([name]) => name === 'transfer-encoding')) headers['transfer-encoding'] = 'chunked'
  headers['host'] = host
  headers['x-forwarded-host'] = host
  headers['x-forwarded-proto'] = isSecure ? 'https' : 'http'
  return headers
}

/**
 * The headers of an answer as the caller sees them: a cookie is for its own host alone, whatever the other server says, and an answer
 * that never has a body names no length of one (RFC 9110, section 8.6).
 */
export function returnedHeaders(raw: readonly string[], status: number): HeaderList {
  const headers = keptHeaders(raw, () => false)
  if (status < 200 || status === 204) delete headers['content-length']
  const cookies = headers['set-cookie']
  if (cookies !== undefined) headers['set-cookie'] = [cookies].flat().map(forOwnHost)
  return headers
}

function forOwnHost(cookie: string): string {
  const [first = '', ...attributes] = cookie.split(';')
  return [first, ...attributes.filter((each) => !/^\s*domain\s*(=|$)/i.test(each))].join(';')
}

function keptHeaders(raw: readonly string[], isLeftOut: (name: string) => boolean): HeaderList {
  const pairs = pairsOf(raw)
  const named = pairs.filter(([name]) => name === 'connection').flatMap(([, value]) => value.toLowerCase().split(','))
  const ofConnection = new Set(named.map((each) => each.trim()).filter((name) => !OF_BOTH_SIDES.has(name)))
  const headers: HeaderList = Object.create(null)
  for (const [name, value] of pairs) {
    if (OF_ONE_CONNECTION.has(name) || ofConnection.has(name) || isLeftOut(name)) continue
    const before = headers[name]
    headers[name] = before === undefined ? value : [...[before].flat(), value]
  }
  return headers
}

function pairsOf(raw: readonly string[]): [string, string][] {
  const pairs: [string, string][] = []
  for (let at = 0; at + 1 < raw.length; at += 2) pairs.push([(raw[at] ?? '').toLowerCase(), raw[at + 1] ?? ''])
  return pairs
}
