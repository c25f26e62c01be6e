/** Says why no answer came from a server, and what to do, by the code of the system's error. */

const REACH_ADVICE = 'check that it runs, or name another with --server or TOLLGATE_URL'
const NAME_ADVICE = 'check the address in --server or TOLLGATE_URL'
const UNKNOWN_AUTHORITY =
  'its certificate is not signed by an authority that is known here; name the file with the certificate of its authority in NODE_EXTRA_CA_CERTS'
const NO_TLS = 'it does not answer by TLS; check whether its address begins with http://'

/** Errors of the way to the server: nothing of the request was sent. */
const UNSENT: Readonly<Record<string, string>> = {
  ECONNREFUSED: `the connection is refused; ${REACH_ADVICE}`,
  ENOTFOUND: `its name is not known; ${NAME_ADVICE}, and your network`,
  EAI_AGAIN: 'its name could not be looked up; check your network, then try again',
  DEPTH_ZERO_SELF_SIGNED_CERT: UNKNOWN_AUTHORITY,
  SELF_SIGNED_CERT_IN_CHAIN: UNKNOWN_AUTHORITY,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNKNOWN_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT: UNKNOWN_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNKNOWN_AUTHORITY,
  CERT_HAS_EXPIRED:
    'its certificate has expired; check the clock of this machine, or tell the people who run the server',
  CERT_NOT_YET_VALID: 'its certificate is not valid yet; check the clock of this machine',
  ERR_TLS_CERT_ALTNAME_INVALID: `its certificate is for another name; ${NAME_ADVICE}`,
  EPROTO: NO_TLS,
  ERR_SSL_WRONG_VERSION_NUMBER: NO_TLS,
}

/** Errors after which the server may have the request. */
const PERHAPS_SENT: Readonly<Record<string, string>> = {
  ECONNRESET: 'the connection was closed before an answer came; check the server, and any proxy on the way to it',
  ETIMEDOUT: `nothing answers there; ${NAME_ADVICE}, and your network`,
  EHOSTUNREACH: `there is no way to it; ${NAME_ADVICE}, and your network`,
  ENETUNREACH: 'there is no way to it; check your network',
}

/** Errors that a network has which lets only a proxy out. */
const BEHIND_PROXY: ReadonlySet<string> = new Set([
  ...['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'ECONNRESET', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH'],
])

const PROXY_HINT = 'is set, and this command goes by it on Node 24.5 or newer alone, where NODE_USE_ENV_PROXY is 1'

export interface Unreached {
  readonly problem: string
  /** True: the server has nothing of the request. False: it may have all of it. */
  readonly isUnsent: boolean
}

export function describeUnreached(
  url: string,
  error: unknown,
  environment: Readonly<Record<string, string | undefined>>,
): Unreached {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  const why = UNSENT[code] ?? PERHAPS_SENT[code] ?? REACH_ADVICE
  const proxy = ['HTTPS_PROXY', 'https_proxy'].find((name) => (environment[name] ?? '') !== '')
  const hint =
    proxy !== undefined && url.startsWith('https:') && BEHIND_PROXY.has(code) ? `; ${proxy} ${PROXY_HINT}` : ''
  return { problem: `${url} can't be reached: ${why}${hint}`, isUnsent: Object.hasOwn(UNSENT, code) }
}
