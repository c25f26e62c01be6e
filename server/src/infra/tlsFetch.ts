/** The authority that a server is known by, and the certificate that we show it, in PEM form. */
export interface TlsIdentity {
  readonly ca: string | Buffer | undefined
  readonly cert: string | Buffer | undefined
  readonly key: string | Buffer | undefined
  /** The name in the server's certificate; undefined: the host of the URL. */
  readonly serverName: string | undefined
}

export type TlsFetch = (url: string, init: RequestInit, identity: TlsIdentity) => Promise<Response>

/**
 * Sends a request to a server that is known by an authority of its own. Follows no redirect: a credential goes to the server that was
 * named, and nowhere else. The caller's signal bounds it.
 */
export const fetchByIdentity: TlsFetch = (url, init, { ca, cert, key, serverName }) => {
  const tls = Object.entries({ ca, cert, key, serverName }).filter(([, value]) => value !== undefined)
  return fetch(url, { ...init, redirect: 'manual', tls: Object.fromEntries(tls) })
}
