/** Where connections go. */
export interface Origin {
  readonly isSecure: boolean
  /** Without the brackets of an IPv6 address. */
  readonly hostname: string
  /** Where connections go in place of what the hostname is resolved to. */
  readonly address?: string
  readonly port: number
  /** Scheme, host and port, as the URL has them. */
  readonly name: string
  /** The same for two URLs that can share connections. */
  readonly key: string
  /** The value of the `host` header. */
  readonly host: string
}

/** A URL taken apart for the wire. */
export interface Destination {
  readonly origin: Origin
  /** Path and query. */
  readonly path: string
}

/** Throws TypeError for what is not an absolute URL of http or https. */
export function destinationOf(text: string): Destination {
  const url = new URL(text)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw new TypeError('the URL must be one of http or https')
  const isSecure = url.protocol === 'https:'
  const hostname = url.hostname.replace(/^\[|\]$/g, '')
  const port = url.port === '' ? (isSecure ? 443 : 80) : Number(url.port)
  const origin = { isSecure, hostname, port, name: url.origin, key: url.origin, host: url.host }
  return { origin, path: url.pathname + url.search }
}
