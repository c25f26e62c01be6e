/** Which addresses customers' webhooks may reach. Names are resolved elsewhere; here is judged what they came to. */

import { type Address, isIn, type Networks, parseAddress, parseNetworks } from '../../lib/networks.ts'

/** Longer ones are refused (W1). */
const URL_CHARACTERS_MOST = 2_048
const TOO_LONG = `must have at most ${URL_CHARACTERS_MOST} characters, percent-encoded`

/** Of a name in DNS without its final dot (RFC 1035, 2.3.4). */
const HOST_CHARACTERS_MOST = 253
const LABEL_CHARACTERS_MOST = 63
const NOT_IN_DNS = `must name a host that DNS can have: at most ${HOST_CHARACTERS_MOST} characters, and 1 to ${LABEL_CHARACTERS_MOST} in each part between dots`

/** Special networks that are, by the letter, among those for global unicast, or that the library calls otherwise. */
const NEVER_PUBLIC = parseNetworks([
  '0.0.0.0/8',
  '100.64.0.0/10',
  // Azure's host, which serves the machines on it alone: https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
  '168.63.129.16',
  '192.0.0.0/24',
  '192.88.99.0/24',
  '198.18.0.0/15',
  '240.0.0.0/4',
  // IETF protocol assignments, Teredo and ORCHID among them; documentation; 6to4.
  '2001::/23',
  '2001:db8::/32',
  '2002::/16',
  '3fff::/20',
])
const GLOBAL_UNICAST = parseNetworks(['2000::/3'])

/** Returns whether an address is one of the public internet, by every table that we know. */
function isPublic(address: Address): boolean {
  if (address.range() !== 'unicast' || isIn(address, NEVER_PUBLIC)) return false
  return address.kind() === 'ipv4' || isIn(address, GLOBAL_UNICAST)
}

/** Where a delivery goes, as its URL says it. */
export interface WebhookTarget {
  readonly isSecure: boolean
  /** As the URL standard writes it: lower case, digits of every kind read, no brackets, no final dot. */
  readonly host: string
  /** The host itself, where it is an address, or `localhost`, which is never looked up; null: a name. */
  readonly literal: string | null
}

export type VettedUrl =
  | {
      readonly ok: true
      readonly target: WebhookTarget
      /** In the normal form of the URL standard: two spellings of one URL are one. */
      readonly url: string
    }
  | { readonly ok: false; readonly reason: string }

/** Parsers take `https:example.com` and `https:///example.com` for a URL with that host; a reader may not. */
const NAMES_HOST = /^https?:\/\/[^/\\]/i

/** Checks a URL as far as it can be without looking its name up (W1). The reason is the end of a sentence about `url`. */
export function vetUrl(text: string, allowed: Networks): VettedUrl {
  if (text.length > URL_CHARACTERS_MOST) return no(TOO_LONG)
  // Parsers drop some of them silently: what is stored would not be what is called.
  if (/[\s\p{Cc}]/u.test(text)) return no('must not hold spaces or control characters')
  if (!URL.canParse(text)) return no('must be an absolute URL, such as https://example.com/hooks')
  const url = new URL(text)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return no('must begin with https://')
  if (!NAMES_HOST.test(text)) return no('must name a host right after https://, such as https://example.com/hooks')
  if (url.port === '0') return no('must not have the port 0')
  if (url.href.length > URL_CHARACTERS_MOST) return no(TOO_LONG)
  if (url.username !== '' || url.password !== '') return no('must not hold a user name or a password')
  const target = targetOf(url, allowed)
  if (target.host === '') return no('must name a host')
  if (!canBeInDns(target.host)) return no(NOT_IN_DNS)
  if (target.literal === null) {
    return target.isSecure ? { ok: true, target, url: url.href } : no('must begin with https://')
  }
  if (mayConnect(target, target.literal, allowed)) return { ok: true, target, url: url.href }
  const isPlain = !target.isSecure && isAddressPublic(target.literal)
  return no(
    isPlain
      ? 'must begin with https://'
      : "must lead to the public internet, not to an address of a private network; 'tollgate listen' forwards events to your own machine",
  )
}

/** Addresses pass too: one is no longer than a label may be. */
function canBeInDns(host: string): boolean {
  const labels = host.split('.')
  const isShort = host.length <= HOST_CHARACTERS_MOST && labels.every((label) => label.length <= LABEL_CHARACTERS_MOST)
  return isShort && !labels.includes('')
}

function no(reason: string): VettedUrl {
  return { ok: false, reason }
}

function targetOf(url: URL, allowed: Networks): WebhookTarget {
  const isSecure = url.protocol === 'https:'
  const host = url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')
  const isLocal = host === 'localhost' || host.endsWith('.localhost')
  if (isLocal) return { isSecure, host, literal: LOOPBACKS.find((each) => isAllowed(each, allowed)) ?? '127.0.0.1' }
  return { isSecure, host, literal: parseAddress(host) === null ? null : host }
}

const LOOPBACKS = ['127.0.0.1', '::1'] as const

/**
 * Returns whether a delivery may connect to an address: one of the public internet over TLS, or one that the operator
 * opened.
 */
export function mayConnect({ isSecure }: Pick<WebhookTarget, 'isSecure'>, text: string, allowed: Networks): boolean {
  return isAllowed(text, allowed) || (isSecure && isAddressPublic(text))
}

function isAllowed(text: string, allowed: Networks): boolean {
  const address = parseAddress(text)
  return address !== null && isIn(address, allowed)
}

function isAddressPublic(text: string): boolean {
  const address = parseAddress(text)
  return address !== null && isPublic(address)
}

/**
 * The addresses that a delivery may try, in this order, of those that its name was resolved to; null when one of them is
 * not to be reached: a name with one foot inside is none of a receiver's.
 */
export function vetAddresses(
  target: WebhookTarget,
  addresses: readonly string[],
  allowed: Networks,
): readonly string[] | null {
  if (addresses.length === 0 || !addresses.every((address) => mayConnect(target, address, allowed))) return null
  // Most machines reach IPv4; of IPv6 many only have the address.
  return [...addresses.filter((each) => !each.includes(':')), ...addresses.filter((each) => each.includes(':'))]
}
