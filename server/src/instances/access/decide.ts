import type { AccessSettings } from '../../catalog/offering.ts'
import type { HeaderList } from '../../infra/proxy/headers.ts'
import type { Decide, ProxyDecision, ProxyRequest } from '../../infra/proxy/server.ts'
import type { ClientAddress } from '../../lib/clientAddress.ts'
import type { Log } from '../../lib/log.ts'
import { addressOfHost, targetOf } from './address.ts'
import type { Doors } from './doors.ts'
import { isRightPassword, shownPassword } from './password.ts'
import type { InstanceAccess } from './store.ts'
import type { WrongPasswords } from './wrongPasswords.ts'

/** Cookies of our pages. An app has others. */
const OWN_COOKIE = /^(__Host-|__Secure-)?tollgate_/i

export interface AccessDecisionDependencies {
  readonly access: AccessSettings
  readonly find: (id: string) => Promise<InstanceAccess | null>
  readonly wrongPasswords: WrongPasswords
  readonly doors: Pick<Doors, 'take'>
  readonly clientAddress: ClientAddress
  readonly log: Log
}

/** Returns the function that says where a request to an app goes. */
export function decideAccess(dependencies: AccessDecisionDependencies): Decide {
  return (request) =>
    decideOne(dependencies, request).catch((error: unknown) => {
      dependencies.log.warn({ err: error }, 'a request to an app was refused, since its instance could not be read')
      return UNAVAILABLE
    })
}

async function decideOne(dependencies: AccessDecisionDependencies, request: ProxyRequest): Promise<ProxyDecision> {
  const { access, wrongPasswords, clientAddress } = dependencies
  const asked = addressOfHost(access, request.host)
  if (asked === null) return NOTHING_HERE
  if (request.isUpgrade && request.header('upgrade')?.toLowerCase() !== 'websocket') return WEBSOCKETS_ALONE
  const shown = shownPassword(request.header('authorization'))
  if (shown === null) return PASSWORD_NEEDED
  const address = clientAddress(request.address, request.header('x-forwarded-for'))
  const waitSeconds = wrongPasswords.waitSeconds(address, asked.id)
  if (waitSeconds > 0) return refuse(429, 'Too many wrong passwords: wait.\n', { 'retry-after': String(waitSeconds) })
  const found = await dependencies.find(asked.id)
  if (!isRightPassword(shown, found?.passwordHash ?? null) || found === null) {
    wrongPasswords.note(address, asked.id)
    return PASSWORD_NEEDED
  }
  if (isForeign(request)) return FOREIGN_PAGE
  const text = asked.isTerminal ? found.terminalTarget : found.appTarget
  const target = text === null ? null : targetOf(text)
  if (!found.isRunning || target === null) return NOT_RUNNING
  const { organizationId, passwordHash } = found
  const door = dependencies.doors.take({ organizationId, id: asked.id, hash: passwordHash ?? new Uint8Array() })
  if (door === null) return TOO_MANY
  return {
    kind: 'forward',
    target,
    isSecure: access.isSecure,
    isOwnCookie: (name) => OWN_COOKIE.test(name),
    onOpened: door.opened,
    onClosed: door.close,
  }
}

/**
 * Returns whether a page of another origin asks for more than to read: the browser shows the password, whoever's page
 * it is.
 */
function isForeign({ method, isUpgrade, host, header }: ProxyRequest): boolean {
  const origin = header('origin')
  if (origin === null || (!isUpgrade && /^(GET|HEAD|OPTIONS)$/.test(method))) return false
  return !URL.canParse(origin) || new URL(origin).host !== host.toLowerCase()
}

function refuse(status: number, text: string, headers: HeaderList = {}): ProxyDecision {
  return { kind: 'refuse', status, text, headers: { ...headers, 'cache-control': 'no-store' } }
}

const NOTHING_HERE = refuse(404, 'Nothing answers at this host.\n')
const WEBSOCKETS_ALONE = refuse(400, 'No other protocol than WebSocket can be asked for.\n')
const PASSWORD_NEEDED = refuse(401, 'Show the password of the instance.\n', {
  'www-authenticate': 'Basic realm="instance", charset="UTF-8"',
})
const FOREIGN_PAGE = refuse(403, 'A page of another origin may not do this.\n')
const NOT_RUNNING = refuse(503, 'The app does not run.\n', { 'retry-after': '5' })
const TOO_MANY = refuse(503, 'Too many requests are open. Close some, or try again shortly.\n', { 'retry-after': '1' })
const UNAVAILABLE = refuse(503, 'The app can not be reached now. Try again shortly.\n', { 'retry-after': '1' })
