import type { Secret } from '../../../server/src/lib/secret.ts'
import { shortInstant } from '../../../server/src/lib/table.ts'
import { MINUTE_MS, SECOND_MS, toTimestamp } from '../../../server/src/lib/time.ts'
import { askWithKey, isTransient, ServerRefusal } from '../api.ts'
import { CliFailure, Interruption } from '../failure.ts'
import { loginHint, readKey } from '../logins.ts'
import { sayNotice } from '../notice.ts'
import { pauseUnlessLeft } from '../pause.ts'
import type { System } from '../system.ts'

/** The device flow of RFC 8628: a person approves this machine in a browser. */

const DESCRIPTION = '/manage/openapi.json'
const CODE = '/device/code'
const TOKEN = '/device/token'
const MANAGE = '/manage/v1'
const CLIENT_ID = 'tollgate-cli'
const GRANT = 'urn:ietf:params:oauth:grant-type:device_code'

/** RFC 8628 has 5 s where the server names no interval, and 5 s more whenever it says `slow_down`. */
const INTERVAL_MS = 5 * SECOND_MS
const SLOWER_MS = 5 * SECOND_MS
/** RFC 8628 asks to poll less often while the server can't be reached; more seldom than this, a server that is back is missed. */
const TROUBLED_MOST_MS = MINUTE_MS
/** A server may let its codes live longer; nobody waits so long. */
const WAIT_MOST_MS = 30 * MINUTE_MS

interface DeviceCode {
  readonly device_code: string
  readonly user_code: string
  readonly verification_uri: string
  readonly expires_in: number
  readonly interval?: number
}

/** Waits until a person has approved this machine in a browser; gives the API key. Throws when the server offers no such login. */
export async function logInByDevice(system: System, url: string): Promise<Secret> {
  if (!(await isOffered(system, url))) {
    throw new CliFailure(
      `${url} offers no login by browser: get an API key from the people who run it, then run "${await loginHint(system, url)} --with-token"`,
      { code: 'not_offered' },
    )
  }
  const body = { client_id: CLIENT_ID, name: system.hostname }
  const code = readCode(await askWithKey(system, url, null, { method: 'POST', path: `${MANAGE}${CODE}`, body }))
  showCode(system, code)
  const leaving = new AbortController()
  const forget = system.onInterrupt(() => leaving.abort())
  try {
    return await waitForKey(system, url, code, leaving.signal)
  } catch (error) {
    if (!leaving.signal.aborted) throw error
    throw new Interruption('nothing was kept')
  } finally {
    forget()
  }
}

/** Says where the code is typed, and how long it is good. */
function showCode(system: System, code: DeviceCode): void {
  const { verification_uri: address, user_code: word } = code
  const untilMs = system.clock.now() + lifetimeMs(code)
  const minutes = Math.floor(lifetimeMs(code) / MINUTE_MS)
  const length = minutes === 1 ? '1 minute' : `${minutes} minutes`
  const until = `${shortInstant(toTimestamp(untilMs))} UTC`
  const waiting = `Waiting for it; the code is good for ${length}, until ${until}. Ctrl-C ends the waiting.`
  sayNotice(system, {
    code: 'device_code',
    message: `Open ${address} and type the code ${word} there.\n${waiting}`,
    fields: { verification_uri: address, user_code: word, expires_at: toTimestamp(untilMs) },
  })
}

function lifetimeMs(code: DeviceCode): number {
  return Math.min(code.expires_in * SECOND_MS, WAIT_MOST_MS)
}

async function isOffered(system: System, url: string): Promise<boolean> {
  const description = await askWithKey(system, url, null, { method: 'GET', path: DESCRIPTION })
  const { paths } = (description ?? {}) as { readonly paths?: Readonly<Record<string, unknown>> }
  return paths?.[CODE] !== undefined && paths[TOKEN] !== undefined
}

/**
 * Polls until the code expires (RFC 8628, section 3.5). A server that can't be reached, or can't answer now, is asked again after
 * twice as long each time, and at the usual interval once it has answered.
 */
async function waitForKey(system: System, url: string, code: DeviceCode, left: AbortSignal): Promise<Secret> {
  const { clock } = system
  const untilMs = clock.monotonicMs() + lifetimeMs(code)
  let intervalMs = Math.max((code.interval ?? 0) * SECOND_MS || INTERVAL_MS, SECOND_MS)
  let pauseMs = intervalMs
  let trouble: CliFailure | null = null
  for (;;) {
    const restMs = untilMs - clock.monotonicMs()
    if (restMs <= 0) break
    await pauseUnlessLeft(clock, Math.min(pauseMs, restMs), left)
    const polled = await poll(system, url, code, left)
    if (polled instanceof CliFailure) {
      trouble = polled
      pauseMs = Math.max(intervalMs, Math.min(2 * pauseMs, TROUBLED_MOST_MS))
      continue
    }
    trouble = null
    if (polled === 'expired_token') break
    if (polled === 'slow_down') intervalMs += SLOWER_MS
    else if (polled !== 'authorization_pending') return polled
    pauseMs = intervalMs
  }
  const end =
    trouble === null ? 'before anybody approved it' : `while the server could not be asked (${trouble.message})`
  throw new CliFailure(`the code has expired ${end}: log in again`, { code: 'expired_token' })
}

/** Asks once. Returns the key; or the word for going on; or the failure that passes. Throws the others. */
async function poll(
  system: System,
  url: string,
  code: DeviceCode,
  left: AbortSignal,
): Promise<Secret | 'authorization_pending' | 'slow_down' | 'expired_token' | CliFailure> {
  const body = { grant_type: GRANT, device_code: code.device_code, client_id: CLIENT_ID }
  try {
    const answer = await askWithKey(system, url, null, { method: 'POST', path: `${MANAGE}${TOKEN}`, body }, left)
    const { access_token: key } = answer as { readonly access_token?: unknown }
    if (typeof key !== 'string') throw notUnderstood()
    return readKey(key, url)
  } catch (error) {
    left.throwIfAborted()
    if (error instanceof ServerRefusal) {
      const { code: word } = error
      if (word === 'authorization_pending' || word === 'slow_down' || word === 'expired_token') return word
      if (word === 'access_denied') throw new CliFailure('the login was refused in the browser', { code: word })
    }
    if (isTransient(error)) return error
    throw error
  }
}

function notUnderstood(): CliFailure {
  return new CliFailure(
    'the server answered the login in a way that this version does not understand: update @tollgate/cli',
  )
}

function readCode(answer: unknown): DeviceCode {
  const code = answer as Partial<Record<keyof DeviceCode, unknown>> | null
  const texts = [code?.device_code, code?.user_code, code?.verification_uri]
  if (!texts.every((each) => typeof each === 'string') || typeof code?.expires_in !== 'number') {
    throw notUnderstood()
  }
  return code as DeviceCode
}
