import { z } from 'zod'
import { jsonAnswer } from '../../../http/jsonAnswer.ts'
import type { Handle } from '../../../http/pipeline.ts'
import type { PublicPrincipal } from '../../../http/principal.ts'
import { validate } from '../../../http/validate.ts'
import { refusal } from '../../../lib/errors.ts'
import { SECOND_MS } from '../../../lib/time.ts'
import { parseKeyName } from '../../keys/name.ts'
import { parseScopes } from '../../keys/scopes.ts'
import type { AttemptCounter } from '../secrets/attempts.ts'
import { beginDeviceLogin } from './begin.ts'
import { DEVICE_KEY_MS } from './deviceLogin.ts'
import { type DeviceExchange, type ExchangeDependencies, exchangeDeviceCode } from './exchange.ts'

export interface DeviceHttpDependencies extends ExchangeDependencies {
  readonly attempts: Pick<AttemptCounter, 'byAddress' | 'inTotal'>
  /** Of this server, such as `https://gateway.example`. */
  readonly origin: () => string
}

const clientId = z.literal('tollgate-cli').meta({ description: 'The program. There is one.' })

export const deviceCodeRequest = z
  .strictObject({
    client_id: clientId,
    name: z.string().min(1).max(100).optional().meta({ description: 'Of the machine; the key gets this name.' }),
    scope: z.string().max(200).default('full_access').meta({
      description: 'The scopes to ask for, written as for a key. The person may give less.',
    }),
  })
  .meta({ id: 'DeviceCodeRequest' })

export const deviceCode = z
  .object({
    device_code: z.string().meta({ description: 'To be kept by the program, and exchanged for the key.' }),
    user_code: z.string().meta({ description: 'To be shown to the person, who types it at `verification_uri`.' }),
    verification_uri: z.string(),
    expires_in: z.int().meta({ description: 'Seconds that both codes work.' }),
    interval: z.int().meta({ description: 'Seconds to wait between two requests for the key.' }),
  })
  .meta({ id: 'DeviceCode' })

export const deviceTokenRequest = z
  .strictObject({
    grant_type: z.literal('urn:ietf:params:oauth:grant-type:device_code'),
    device_code: z.string().min(1).max(200),
    client_id: clientId,
  })
  .meta({ id: 'DeviceTokenRequest' })

export const deviceToken = z
  .object({
    access_token: z.string().meta({ description: 'The API key. It is never shown again.' }),
    token_type: z.literal('Bearer'),
    expires_in: z.int().meta({ description: 'Seconds that the key works.' }),
    scope: z.string(),
  })
  .meta({ id: 'DeviceToken' })

/** RFC 6749, 5.2, with the codes of RFC 8628, 3.5. */
export const deviceTokenRefusal = z
  .object({
    error: z.enum(['authorization_pending', 'slow_down', 'access_denied', 'expired_token']),
    error_description: z.string(),
  })
  .meta({ id: 'DeviceTokenRefusal' })

const UNNAMED = 'a machine without a name'
const NO_STORE = { 'Cache-Control': 'no-store' }
const TOO_OFTEN = 'Too many logins are begun. Wait for the seconds in Retry-After, then try again.'

/** POST /device/code, of the management interface. */
export function postDeviceCode(dependencies: DeviceHttpDependencies): Handle<PublicPrincipal> {
  const { attempts, origin } = dependencies
  return async (call) => {
    const checked = validate(deviceCodeRequest, call.body, 'validation_failed', undefined, 'validation_failed')
    if (!checked.ok) return checked.refusal
    const name = parseKeyName(checked.value.name ?? UNNAMED)
    if (!name.ok) return name.refusal
    const scopes = parseScopes(checked.value.scope)
    if (!scopes.ok) return scopes.refusal
    const { address } = call.principal
    const retryAfterSeconds =
      (await attempts.byAddress('deviceLogin', address)) ?? (await attempts.inTotal('deviceLogin', address))
    if (retryAfterSeconds !== null) return refusal('rate_limit_exceeded', TOO_OFTEN, { retryAfterSeconds })
    const begun = await beginDeviceLogin(dependencies, { name: name.value, address, scopes: scopes.value })
    if (!begun.ok) return begun.refusal
    const body: z.infer<typeof deviceCode> = {
      device_code: begun.value.deviceCode,
      user_code: begun.value.userCode,
      verification_uri: `${origin()}/account/device`,
      expires_in: begun.value.expiresInSeconds,
      interval: begun.value.intervalSeconds,
    }
    return jsonAnswer(body, 200, NO_STORE)
  }
}

const REFUSALS: Readonly<Record<Exclude<DeviceExchange['kind'], 'approved'>, z.infer<typeof deviceTokenRefusal>>> = {
  pending: { error: 'authorization_pending', error_description: 'Nobody has approved the login yet. Ask again.' },
  too_soon: { error: 'slow_down', error_description: 'You ask too often. Wait 5 seconds longer from now on.' },
  denied: { error: 'access_denied', error_description: 'The login was denied.' },
  expired: { error: 'expired_token', error_description: 'The code is unknown, has expired or was used. Log in again.' },
}

/** POST /device/token, of the management interface. */
export function postDeviceToken(dependencies: DeviceHttpDependencies): Handle<PublicPrincipal> {
  return async (call) => {
    const checked = validate(deviceTokenRequest, call.body, 'validation_failed', undefined, 'validation_failed')
    if (!checked.ok) return checked.refusal
    const exchanged = await exchangeDeviceCode(dependencies, checked.value.device_code, call.principal.address)
    if (exchanged.kind !== 'approved') return jsonAnswer(REFUSALS[exchanged.kind], 400, NO_STORE)
    const { record, plaintext } = exchanged.key
    const body: z.infer<typeof deviceToken> = {
      access_token: plaintext,
      token_type: 'Bearer',
      expires_in: DEVICE_KEY_MS / SECOND_MS,
      scope: record.scopes,
    }
    return jsonAnswer(body, 200, NO_STORE)
  }
}
