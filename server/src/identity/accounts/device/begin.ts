import type { Queryable } from '../../../infra/postgres/database.ts'
import { refusal } from '../../../lib/errors.ts'
import { type RandomBytes, uuidV7 } from '../../../lib/ids.ts'
import { ok, type Result, refused } from '../../../lib/result.ts'
import { type Clock, MINUTE_MS, SECOND_MS } from '../../../lib/time.ts'
import { printScopes, type Scopes } from '../../keys/scopes.ts'
import { drawSecret, hashOfSecret } from '../secrets/token.ts'
import { DEVICE_INTERVAL_SECONDS, DEVICE_LOGIN_MS } from './deviceLogin.ts'
import { deleteExpiredLogins, insertDeviceLogin } from './store.ts'
import { drawUserCode, printUserCode } from './userCode.ts'

/** Open logins of the installation: the more there are, the more easily a code is guessed. */
const OPEN_MOST = 1_000

const TOO_MANY = refusal('rate_limit_exceeded', 'Too many logins are open at this moment. Try again in a minute.', {
  retryAfterSeconds: MINUTE_MS / SECOND_MS,
})

export interface DeviceDependencies {
  readonly database: Queryable
  readonly clock: Clock
  readonly random: RandomBytes
}

/** The codes of a login; the only time that they are seen. */
export interface BegunLogin {
  readonly deviceCode: string
  /** As it is shown, such as `BCDF-GHJK`. */
  readonly userCode: string
  readonly expiresInSeconds: number
  readonly intervalSeconds: number
}

/** Begins the login of a program on a machine. Refused where too many are open. */
export async function beginDeviceLogin(
  { database, clock, random }: DeviceDependencies,
  wanted: { readonly name: string; readonly address: string; readonly scopes: Scopes },
): Promise<Result<BegunLogin>> {
  const [deviceCode, userCode] = [drawSecret(random), drawUserCode(random)]
  const nowMs = clock.now()
  const { name, address, scopes } = wanted
  const login = {
    id: uuidV7(nowMs, random),
    deviceHash: hashOfSecret(deviceCode),
    userHash: hashOfSecret(userCode),
    name,
    address,
    scopes: printScopes(scopes),
    intervalSeconds: DEVICE_INTERVAL_SECONDS,
    createdAtMs: nowMs,
    expiresAtMs: nowMs + DEVICE_LOGIN_MS,
  }
  if (!(await insertDeviceLogin(database, login, OPEN_MOST))) return refused(TOO_MANY)
  return ok({
    deviceCode,
    userCode: printUserCode(userCode),
    expiresInSeconds: DEVICE_LOGIN_MS / SECOND_MS,
    intervalSeconds: DEVICE_INTERVAL_SECONDS,
  })
}

/** Removes at most `atMost` logins that have expired; returns how many. */
export function sweepDeviceLogins(
  { database, clock }: Omit<DeviceDependencies, 'random'>,
  atMost: number,
): Promise<number> {
  return deleteExpiredLogins(database, clock.now(), atMost)
}
