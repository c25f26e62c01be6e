import { type Html, html } from '../../../lib/html.ts'
import { toTimestamp } from '../../../lib/time.ts'
import type { FormToken } from '../pages/browser.ts'
import { accountsPage, actionForm, problemLine } from '../pages/views.ts'
import { type NextPage, signInAgainPath } from '../pages/visit.ts'
import type { IdentityProvider, LinkedIdentity } from './identity.ts'

/** Leads the browser to a provider. No redirect: browsers hold those that follow a form to the places that the form's page names. */
export function continuePage(name: string, url: string, cookie: string): Response {
  const body = html`<meta http-equiv="refresh" content="0;url=${url}"><p>You are led to ${name}. <a href="${url}">Go on</a></p>`
  return accountsPage(`Sign in with ${name}`, body, { cookies: [cookie] })
}

/** For an answer to nothing that this browser asked. */
export function stalePage(name: string, cookie: string): Response {
  const body = html`<p>This answer of ${name} is not one to this browser, or it was used before. Nothing was changed. <a href="/account/sign-in?again=yes">Sign in again</a>.</p>`
  return accountsPage('Nothing was changed', body, { status: 403, cookies: [cookie] })
}

/** For a person who did not agree, or whom the provider refused. `next`: the page after the sign-in. */
export function refusedTherePage(name: string, cookie: string, next: NextPage): Response {
  const body = html`<p>${name} did not confirm who you are. Nothing was changed. <a href="${signInAgainPath(next)}">Sign in</a> in another way, or try again.</p>`
  return accountsPage('Nothing was changed', body, { status: 403, cookies: [cookie] })
}

export function providerAwayPage(name: string, cookie: string | null, next: NextPage): Response {
  const body = html`<p>${name} did not answer as it should. Nothing was changed. <a href="${signInAgainPath(next)}">Sign in</a> in another way, or try again; if it stays so, tell the operator of this server.</p>`
  return accountsPage('Nothing was changed', body, { status: 502, cookies: [cookie] })
}

/** Says the same whether somebody here has the address of the account at the provider or not. `next`: the page after the sign-in. */
export function notLinkedPage(name: string, cookie: string, next: NextPage): Response {
  const body = html`<p>Your account at ${name} is linked to nobody here, so you are not signed in.</p>
    <p>If you have an account here, <a href="${signInAgainPath(next)}">sign in</a> with your password or a passkey, open “Other ways to sign in” on the page of your account, and link ${name} there. If you have none, ask an admin of your organization for an invitation.</p>`
  return accountsPage('Link your account first', body, { status: 403, cookies: [cookie] })
}

/** The identity providers, and which of them a person has linked. */
export function identitiesPage(view: {
  readonly form: FormToken
  readonly providers: readonly IdentityProvider[]
  readonly linked: readonly LinkedIdentity[]
  readonly problem?: string
  readonly cookie?: string
}): Response {
  const { form, providers, linked, problem, cookie = null } = view
  const lines = providers.map((each) => providerLine(each, linked, form))
  const body = html`${problemLine(problem)}<p>Link an account that has the same mail address, verified there.</p><ul>${lines}</ul>`
  const status = problem === undefined ? 200 : 422
  return accountsPage('Other ways to sign in', body, { status, cookies: [form.setCookie, cookie], signedIn: form })
}

function providerLine(
  { id, name, issuer }: IdentityProvider,
  linked: readonly LinkedIdentity[],
  form: FormToken,
): Html {
  const found = linked.find((each) => each.issuer === issuer)
  if (found === undefined)
    return html`<li>${name} ${actionForm(`/account/identity/${id}/link`, form, html``, `Link ${name}`)}</li>`
  const day = (instantMs: number) => toTimestamp(instantMs).slice(0, 10)
  const used = found.lastUsedAtMs === null ? 'never used' : `last used ${day(found.lastUsedAtMs)}`
  return html`<li>${name}, linked ${day(found.createdAtMs)}, ${used} ${actionForm(`/account/identity/${id}/unlink`, form, html``, `Unlink ${name}`, 'danger')}</li>`
}
