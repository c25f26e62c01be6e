import type { AccessSettings } from '../../catalog/offering.ts'
import type { ProxyTarget } from '../../infra/proxy/forward.ts'
import { isUuid } from '../../lib/ids.ts'
import type { DriverMachine } from '../drivers/driver.ts'

/** The name with which the owner of an instance shows its password. */
export const APP_USER = 'tollgate'

/** Behind the id, in the host of a terminal: a browser keeps it apart from the app, and no path of the app is taken. */
const TERMINAL = '-terminal'

/** The part of an instance that answers at a host. */
export interface AppAddress {
  readonly id: string
  readonly isTerminal: boolean
}

/** Where an instance is shown to answer, and where its driver has it. */
export interface Reach {
  readonly appUrl: string | null
  readonly terminalUrl: string | null
  /** Null: the gateway hands nothing on to it. */
  readonly appTarget: string | null
  readonly terminalTarget: string | null
  /** Null: no password of ours is asked for. */
  readonly appUser: string | null
}

/** Returns how a machine is reached: through the gateway where there is a host for that, else by the driver's own URLs. */
export function reachOf(
  access: AccessSettings | null,
  id: string,
  { appUrl, terminalUrl }: Pick<DriverMachine, 'appUrl' | 'terminalUrl'>,
): Reach {
  if (access === null) return { appUrl, terminalUrl, appTarget: null, terminalTarget: null, appUser: null }
  const at = (label: string) => `${access.isSecure ? 'https' : 'http'}://${label}.${access.host}/`
  return {
    appUrl: appUrl === null ? null : at(id),
    terminalUrl: terminalUrl === null ? null : at(`${id}${TERMINAL}`),
    ...{ appTarget: appUrl, terminalTarget: terminalUrl },
    appUser: appUrl === null && terminalUrl === null ? null : APP_USER,
  }
}

/** Returns what answers at the host of a request; null: nothing of ours. A port does not matter: others may stand before ours. */
export function addressOfHost(access: AccessSettings, host: string): AppAddress | null {
  const name = withoutPort(host.toLowerCase())
  const dot = name.indexOf('.')
  if (dot < 0 || name.slice(dot + 1) !== withoutPort(access.host)) return null
  const label = name.slice(0, dot)
  const isTerminal = label.endsWith(TERMINAL)
  const id = isTerminal ? label.slice(0, -TERMINAL.length) : label
  return isUuid(id) ? { id, isTerminal } : null
}

function withoutPort(host: string): string {
  return host.replace(/:\d*$/, '')
}

/** Reads where a driver has an app: a URL, or `unix:` and the path of a socket. Null: it is neither. */
export function targetOf(text: string): ProxyTarget | null {
  if (text.startsWith('unix:')) return { socketPath: text.slice('unix:'.length) }
  if (!URL.canParse(text)) return null
  const { protocol, hostname, port, pathname } = new URL(text)
  const isTls = protocol === 'https:'
  if (!isTls && protocol !== 'http:') return null
  return {
    host: hostname.replace(/^\[|\]$/g, ''),
    port: port === '' ? (isTls ? 443 : 80) : Number(port),
    isTls,
    pathPrefix: pathname.replace(/\/$/, ''),
  }
}
