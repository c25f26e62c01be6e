/**
 * Where the database is reached: one place, or the one of several hosts that takes writes. `DATABASE_URL` names several
 * hosts as libpq does:
 * `postgres://u:p@db1:5432,db2:5432/name?target_session_attrs=read-write`.
 */

export interface DatabaseAddress {
  /** The URL of the host in use. A secret. */
  readonly url: string
  /**
   * Looks for the host that takes writes, and uses it from then on.
   *
   * @throws where there are several and none does: the connection failure of the host in use, or of another; else
   * NoHostTakesWrites.
   */
  choose(): Promise<void>
  /** Calls back in the step in which another host comes into use; what it returns ends that. */
  onMoved(callback: () => void): () => void
}

/** The one kind of host that Tollgate can use. */
export const TARGET = 'read-write'
const TARGET_PARAMETER = 'target_session_attrs'

/** The hosts that a URL of PostgreSQL names, a URL for each, and the kinds of host that it asks for. */
export interface Hosts {
  /** Without the parameter `target_session_attrs`. At least one. */
  readonly urls: readonly string[]
  /** The values of `target_session_attrs`. */
  readonly targets: readonly string[]
}

/** Reads the hosts of a URL; null where it is none of PostgreSQL. */
export function readHosts(text: string): Hosts | null {
  const parts = /^(postgres(?:ql)?:\/\/(?:[^/?#@]*@)?)([^/?#]*)(.*)$/.exec(text)
  if (parts === null) return null
  const [, before = '', hosts = '', after = ''] = parts
  const urls = hosts.split(',').map((host) => `${before}${host}${after}`)
  if (!urls.every((url) => URL.canParse(url))) return null
  const targets = new URL(urls[0] ?? '').searchParams.getAll(TARGET_PARAMETER)
  return { urls: targets.length === 0 ? urls : urls.map(withoutTarget), targets }
}

function withoutTarget(text: string): string {
  const url = new URL(text)
  url.searchParams.delete(TARGET_PARAMETER)
  return url.toString()
}

/** A URL stays as it is. */
export function toAddress(given: string | DatabaseAddress): DatabaseAddress {
  if (typeof given !== 'string') return given
  return { url: given, choose: async () => {}, onMoved: () => () => {} }
}
