import ipaddr from 'ipaddr.js'

export type Address = ipaddr.IPv4 | ipaddr.IPv6
type Network = readonly [address: Address, bits: number]
export type Networks = readonly Network[]

/** Four decimal parts, or IPv6 without a zone; null for whatever else some programs take for an address. */
export function parseAddress(text: string): Address | null {
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return ipaddr.IPv4.parse(text)
  return text.includes(':') && !text.includes('%') && ipaddr.IPv6.isValid(text) ? ipaddr.IPv6.parse(text) : null
}

/** Reads a network such as 127.0.0.0/8, or a single address; null for anything else. */
export function parseNetwork(text: string): Network | null {
  const [, start = text, bits] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? []
  const address = parseAddress(start)
  if (address === null) return null
  const most = address.kind() === 'ipv4' ? 32 : 128
  if (bits === undefined) return text.includes('/') ? null : [address, most]
  return Number(bits) <= most ? [address, Number(bits)] : null
}

/** Reads a list; entries that are none are left out: {@link parseNetwork} says which. */
export function parseNetworks(entries: readonly string[]): Networks {
  return entries.flatMap((entry) => {
    const network = parseNetwork(entry)
    return network === null ? [] : [network]
  })
}

export function isIn(address: Address, networks: Networks): boolean {
  return networks.some(([network, bits]) => address.kind() === network.kind() && address.match(network, bits))
}
