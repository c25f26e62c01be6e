/** The address that a request counts for. */

import ipaddr from 'ipaddr.js'

/** Returns a request's client address from its socket's address and its `X-Forwarded-For`. */
export type ClientAddress = (socketAddress: string, forwardedFor: string | null | undefined) => string

type Cidr = ReturnType<typeof ipaddr.parseCIDR>

/**
 * Reads the setting `trusted_proxies`: CIDRs or single addresses. Throws an Error that names the entry when one is
 * neither.
 */
function parseTrustedProxies(entries: readonly string[]): readonly Cidr[] {
  return entries.map((entry) => {
    const text = entry.trim()
    try {
      if (text.includes('/')) return ipaddr.parseCIDR(text)
      const address = ipaddr.process(text)
      return [address, address.kind() === 'ipv4' ? 32 : 128] as Cidr
    } catch {
      throw new Error(`trusted_proxies: "${entry}" is neither an address nor a CIDR such as 10.0.0.0/8`)
    }
  })
}

/** Returns whether an address is that of a trusted proxy. Throws where an entry is neither an address nor a CIDR. */
export function createIsTrustedProxy(trustedProxies: readonly string[]): (text: string) => boolean {
  const trusted = parseTrustedProxies(trustedProxies)
  return (text) => {
    const address = parseAddress(text)
    return address !== undefined && trusted.some((range) => address.kind() === range[0].kind() && address.match(range))
  }
}

/**
 * The address is the socket's, unless the socket belongs to a trusted proxy: then it is the right-most entry of
 * `X-Forwarded-For` that no trusted proxy wrote about itself. The entries left of it are the client's own word. An
 * entry that is not an address ends the search: the last proxy that can be named is held responsible.
 */
export function createClientAddress(trustedProxies: readonly string[]): ClientAddress {
  if (trustedProxies.length === 0) return (socketAddress) => socketAddress
  const isTrusted = createIsTrustedProxy(trustedProxies)
  return (socketAddress, forwardedFor) => {
    let client = socketAddress
    let rest = forwardedFor ?? ''
    while (rest !== '' && isTrusted(client)) {
      const comma = rest.lastIndexOf(',')
      const entry = withoutPort(rest.slice(comma + 1).trim())
      if (parseAddress(entry) === undefined) break
      client = entry
      rest = rest.slice(0, Math.max(comma, 0))
    }
    return client
  }
}

/**
 * Returns the group of addresses that a limit by address counts as one: an IPv4 address, or the /56 of an IPv6 address. Most networks
 * give a customer as much, and a customer that counted as its 256 /64s would pass each limit 256 times. A text that is no address counts
 * as itself.
 */
export function addressGroup(text: string): string {
  const address = parseAddress(text)
  if (address === undefined) return text
  if (address instanceof ipaddr.IPv4) return address.toString()
  const [first = 0, second = 0, third = 0, fourth = 0] = address.parts
  const groups = [first, second, third, fourth & 0xff00]
  return `${groups.map((part) => part.toString(16)).join(':')}::/56`
}

/** Reads an address; one that is IPv4 inside IPv6 (`::ffff:192.0.2.1`), as dual-stack sockets have it, is IPv4. */
function parseAddress(text: string): ipaddr.IPv4 | ipaddr.IPv6 | undefined {
  // isValid alone takes "1" and "0x7f.1" for IPv4, which no proxy writes.
  if (!ipaddr.IPv4.isValidFourPartDecimal(text) && !ipaddr.IPv6.isValid(text)) return undefined
  return ipaddr.process(text)
}

/** Some proxies write `192.0.2.1:4711` and `[2001:db8::1]:4711`. */
function withoutPort(entry: string): string {
  const [, bracketed] = /^\[([^\]]*)\](?::\d+)?$/.exec(entry) ?? []
  if (bracketed !== undefined) return bracketed
  const [, plain] = /^([\d.]+):\d+$/.exec(entry) ?? []
  return plain ?? entry
}
