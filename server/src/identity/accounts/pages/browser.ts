/** The browser of a person: its cookies, and whether a change that it sends comes from a page of this server. */

import type { RandomBytes } from '../../../lib/ids.ts'
import { KNOWN_BROWSER_SECONDS } from '../secrets/knownBrowser.ts'
import { csrfTokenOf, drawSecret, isSameText } from '../secrets/token.ts'

/** The names of cookies, and whether they are for https alone. */
export interface Cookies {
  readonly session: string
  /** Of forms that are filled in before there is a session. */
  readonly form: string
  /** The mark of a browser that has signed in before. */
  readonly known: string
  /** Of a flow by an identity provider. */
  readonly flow: string
  /** The secret of an invitation that waits for the sign-in of its person. */
  readonly invitation: string
  readonly isSecure: boolean
  readonly sessionSeconds: number
}

/** The prefix `__Host-` keeps other hosts of the same domain from setting them. */
export function cookiesOf(isSecure: boolean, sessionSeconds: number): Cookies {
  const prefix = isSecure ? '__Host-' : ''
  const named = (word: string) => `${prefix}tollgate_${word}`
  const [session, form, known] = [named('session'), named('form'), named('browser')]
  const [flow, invitation] = [named('flow'), named('invitation')]
  return { session, form, known, flow, invitation, isSecure, sessionSeconds }
}

function setCookie(name: string, value: string, seconds: number, { isSecure }: Cookies): string {
  const secure = isSecure ? '; Secure' : ''
  return `${name}=${value}; Path=/; HttpOnly; SameSite=Lax; Max-Age=${seconds}${secure}`
}

export function setSession(cookies: Cookies, token: string): string {
  return setCookie(cookies.session, token, cookies.sessionSeconds, cookies)
}

export function setKnownBrowser(cookies: Cookies, mark: string): string {
  return setCookie(cookies.known, mark, KNOWN_BROWSER_SECONDS, cookies)
}

export function clearSession(cookies: Cookies): string {
  return setCookie(cookies.session, '', 0, cookies)
}

export function clearKnownBrowser(cookies: Cookies): string {
  return setCookie(cookies.known, '', 0, cookies)
}

/** As long as a person may take at an identity provider. */
const FLOW_SECONDS = 600

export function setFlow(cookies: Cookies, secret: string): string {
  return setCookie(cookies.flow, secret, FLOW_SECONDS, cookies)
}

export function clearFlow(cookies: Cookies): string {
  return setCookie(cookies.flow, '', 0, cookies)
}

/** As long as a person may take to sign in, by a new password too. */
const INVITATION_SECONDS = 3_600

export function setInvitation(cookies: Cookies, secret: string): string {
  return setCookie(cookies.invitation, secret, INVITATION_SECONDS, cookies)
}

export function clearInvitation(cookies: Cookies): string {
  return setCookie(cookies.invitation, '', 0, cookies)
}

const FORM_SECONDS = 3_600

/** The token that a form is to carry, and the cookie to set beside it where the browser has none. */
export interface FormToken {
  readonly token: string
  readonly setCookie: string | null
}

/** Returns the token of a form. It belongs to the session, or where there is none to a cookie of its own. */
export function formTokenOf(cookies: Cookies, values: CookieValues, random: RandomBytes): FormToken {
  const known = values.session ?? values.form
  if (known !== null) return { token: csrfTokenOf(known), setCookie: null }
  const value = drawSecret(random)
  return { token: csrfTokenOf(value), setCookie: setCookie(cookies.form, value, FORM_SECONDS, cookies) }
}

/** The values of the cookies in a request; null where one is missing. */
export interface CookieValues {
  readonly session: string | null
  readonly form: string | null
  readonly known: string | null
  readonly flow: string | null
  readonly invitation: string | null
}

/** Returns whether a form carries the token of the browser that sent it. */
export function isOwnForm(values: CookieValues, token: string | undefined): boolean {
  const known = values.session ?? values.form
  return known !== null && token !== undefined && isSameText(token, csrfTokenOf(known))
}
