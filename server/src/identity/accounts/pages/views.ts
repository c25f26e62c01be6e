/**
 * The pages of accounts: plain HTML, without scripts but on the pages of passkeys. Forms are sent to the address of their page
 * unless they say where.
 */

import { type Html, html, htmlPage } from '../../../lib/html.ts'
import { MINUTE_MS } from '../../../lib/time.ts'
import type { OfferedMembership } from '../invitations/accept.ts'
import { PASSWORD_CHARACTERS } from '../secrets/password.ts'
import { RECENT_SIGN_IN_MS } from '../sessions/session.ts'
import type { FormToken } from './browser.ts'

const PRODUCT = html`<strong>Tollgate</strong>`

/** A page with the cookies that it sets. `signedIn`: the token of a person's forms, for the navigation of those who are signed in. */
export function accountsPage(
  title: string,
  body: Html,
  {
    status = 200,
    cookies = [],
    script,
    signedIn,
  }: { status?: number; cookies?: readonly (string | null)[]; script?: string; signedIn?: FormToken } = {},
): Response {
  const header = signedIn === undefined ? PRODUCT : html`${PRODUCT}${navigation(signedIn)}`
  const response = htmlPage(title, body, { status, header, ...(script === undefined ? {} : { script }) })
  // With no-referrer, browsers would send the forms of the page without their origin, which the server asks for.
  response.headers.set('Referrer-Policy', 'same-origin')
  for (const cookie of cookies) if (cookie !== null) response.headers.append('Set-Cookie', cookie)
  return response
}

function navigation(form: FormToken): Html {
  return html`<a href="/account">Account</a>${actionForm('/account/sign-out', form, html``, 'Sign out', 'plain')}`
}

/** Sends the browser on after a form. */
export function redirect(location: string, cookies: readonly string[] = []): Response {
  const headers = new Headers({ Location: location, 'Cache-Control': 'no-store' })
  for (const cookie of cookies) headers.append('Set-Cookie', cookie)
  return new Response(null, { status: 303, headers })
}

/** The values that a form is shown with: its token, and the fault of the values that it was last sent with. */
export interface FormView {
  readonly form: FormToken
  readonly problem?: string
  /** 422 with a problem unless given. */
  readonly status?: number
  /** Returns what was typed into a field when the form was last sent, so that nobody types it again. Passwords are never shown. */
  readonly typed?: (field: KeptField) => string
  /** The name of the field that the fault is in: the browser goes there. */
  readonly refused?: string
  /** The page is of somebody who is signed in. */
  readonly isSignedIn?: true
  /** Stands below the form, behind its button. */
  readonly after?: Html
}

export type FormFault = Pick<FormView, 'problem' | 'refused'>

/** The fields that a refused form keeps. */
export type KeptField = 'name' | 'email' | 'organization'

export function formPage(title: string, before: Html, fields: Html, button: string, view: FormView): Response {
  const { form, problem, status = problem === undefined ? 200 : 422, isSignedIn, refused, after = html`` } = view
  const body = html`${problemLine(problem)}${before}<form method="post" enctype="multipart/form-data">${hidden(form)}${focused(fields, refused)}<button>${button}</button></form>${after}`
  return accountsPage(title, body, {
    status,
    cookies: [form.setCookie],
    ...(isSignedIn === true ? { signedIn: form } : {}),
  })
}

/** Returns fields with the focus on the one of a name. No text of anybody is taken for a field: its quotes are escaped. */
export function focused(fields: Html, name: string | undefined): Html {
  const attribute = `name="${name ?? ''}"`
  return { html: fields.html.replace(attribute, `${attribute} autofocus`) }
}

/** The line that says what is wrong; nothing where nothing is. */
export function problemLine(problem: string | undefined): Html {
  return problem === undefined ? html`` : html`<p class="problem" role="alert">${problem}</p>`
}

export function hidden({ token }: FormToken): Html {
  return html`<input type="hidden" name="csrf" value="${token}">`
}

function emailField({ typed }: FormView): Html {
  return html`<label>E-mail address <input name="email" type="email" required maxlength="254" autocomplete="username" value="${typed?.('email') ?? ''}"></label>`
}

/** Tells password managers whose password is set. It is not sent. */
function usernameField(email: string): Html {
  return html`<label>E-mail address <input type="email" autocomplete="username" value="${email}" readonly></label>`
}

function nameField({ typed }: FormView): Html {
  return html`<label>Your name <input name="name" required maxlength="100" autocomplete="name" value="${typed?.('name') ?? ''}"></label>`
}

const PASSWORD = html`<label>Password <input name="password" type="password" required maxlength="${String(PASSWORD_CHARACTERS.most)}" autocomplete="current-password"></label>`
export const CURRENT_PASSWORD = html`<label>Current password <input name="password" type="password" required maxlength="${String(PASSWORD_CHARACTERS.most)}" autocomplete="current-password"></label>`
export const NEW_PASSWORD = html`<label>New password, of ${String(PASSWORD_CHARACTERS.least)} characters or more
  <input name="new_password" type="password" required minlength="${String(PASSWORD_CHARACTERS.least)}" maxlength="${String(PASSWORD_CHARACTERS.most)}" autocomplete="new-password"></label>`

export function setUpPage(view: FormView): Response {
  const before = html`<p>You make the first account of this server. It owns the organization “default”, and may do what the operator does.</p>`
  return formPage(
    'Set up',
    before,
    html`${nameField(view)}${emailField(view)}${NEW_PASSWORD}`,
    'Make the account',
    view,
  )
}

/** The ways of signing in beside a password that the settings have. */
export interface SignInWays {
  readonly passkeys: boolean
  readonly identityProviders: readonly { readonly id: string; readonly name: string }[]
}

export interface SignInView extends FormView {
  readonly offersRegistration: boolean
  readonly ways: SignInWays
  /** The ends of the addresses of the other ways. */
  readonly query: string
}

export function signInPage(view: SignInView): Response {
  const { form, ways, offersRegistration, query } = view
  const passkey = ways.passkeys ? html`<p><a href="/account/passkey${query}">Sign in with a passkey</a></p>` : html``
  const others = ways.identityProviders.map(({ id, name }) =>
    actionForm(`/account/identity/${id}${query}`, form, html``, `Sign in with ${name}`, 'plain'),
  )
  const register = offersRegistration ? html`<p><a href="/account/register">Register</a></p>` : html``
  const after = html`<p><a href="/account/forgotten">Forgotten your password?</a></p>${register}`
  return formPage('Sign in', html`${passkey}${others}`, html`${emailField(view)}${PASSWORD}`, 'Sign in', {
    ...view,
    after,
  })
}

/** For a person whose session began too long ago for this. */
export function signInAgainPage(what = 'This changes how you sign in'): Response {
  const body = html`<p>${what}, and you signed in more than ${String(RECENT_SIGN_IN_MS / MINUTE_MS)} minutes ago. <a href="/account/sign-in?again=yes">Sign in again</a>, then come back.</p>`
  return accountsPage('Sign in again', body, { status: 403 })
}

export function forgottenPage(view: FormView, mailsLinks: boolean): Response {
  const before = mailsLinks
    ? html`<p>You get a mail with a link to set a new password.</p>`
    : html`<p>This server sends no mail. It makes a link to set a new password, and the operator gives it to you.</p>`
  return formPage('Forgotten password', before, emailField(view), mailsLinks ? 'Send the link' : 'Make the link', view)
}

/** Says the same whether somebody has an account with the address or not. */
export function sentPage(mailsLinks: boolean): Response {
  if (!mailsLinks) return askOperatorPage()
  const body = html`<p>If somebody has an account with this address, a mail with a link is on its way. The link works for 30 minutes.</p>`
  return accountsPage('Look at your mail', body)
}

/** Says where a link is that is not mailed. */
function askOperatorPage(): Response {
  const body = html`<p>This server sends no mail: a link is written to the file <code>account-links</code> of its data directory, if one can be made for this address. Ask the operator for it.</p>
    <p>The operator can also make a link to set a new password with <code>./tollgate users reset-link EMAIL</code>.</p>`
  return accountsPage('Ask the operator for the link', body)
}

export function noMailPage(): Response {
  const body = html`<p>This server sends no mail. If you have forgotten your password, ask the operator for a link: <code>./tollgate users reset-link</code> makes one.</p>`
  return accountsPage('No mail', body, { status: 503 })
}

export function resetPage(email: string, view: FormView): Response {
  const before = html`<p>You are signed out everywhere then.</p>`
  return formPage('Set a new password', before, html`${usernameField(email)}${NEW_PASSWORD}`, 'Set the password', view)
}

export function acceptPage({ organizationName, email, role, hasAccount }: OfferedMembership, view: FormView): Response {
  const as = role === 'member' ? 'a member' : `an ${role}`
  const before = html`<p>${email} is invited to become ${as} of the organization “${organizationName}”.</p>`
  const fields = hasAccount ? html`` : html`${nameField(view)}${usernameField(email)}${NEW_PASSWORD}`
  return formPage('Accept the invitation', before, fields, 'Accept', view)
}

export function registerPage(view: FormView, mailsLinks: boolean): Response {
  const link = mailsLinks ? 'You get a mail with a link' : 'The operator of this server gives you a link'
  const before = html`<p>${link}, with which you choose your name, your organization and your password. If you were invited to an organization, open the link of the invitation instead.</p>`
  return formPage('Register', before, emailField(view), 'Send the link', view)
}

/** Says the same whether somebody has an account with the address or not. */
export function registrationSentPage(mailsLinks: boolean): Response {
  if (!mailsLinks) return askOperatorPage()
  const body = html`<p>A mail with a link is on its way, unless many were sent to this address lately. The link works for an hour.</p>`
  return accountsPage('Look at your mail', body)
}

export function finishRegistrationPage(email: string, view: FormView): Response {
  const before = html`<p>You make an account with the address ${email}, and a new organization, which you own.</p>`
  const organization = html`<label>Name of your organization <input name="organization" required maxlength="64" autocomplete="organization" value="${view.typed?.('organization') ?? ''}"></label>`
  return formPage(
    'Finish your registration',
    before,
    html`${nameField(view)}${organization}${usernameField(email)}${NEW_PASSWORD}`,
    'Register',
    view,
  )
}

export function confirmAddressPage(email: string, view: FormView): Response {
  const before = html`<p>You sign in with ${email} from now on. You are signed out everywhere else, and your old address is told.</p>`
  return formPage('Confirm your new address', before, html``, 'Confirm the address', { ...view, isSignedIn: true })
}

/**
 * For an invitation to somebody who has an account and is not signed in with it; `signedInAs`: the address of the person who is signed in
 * in place. `invitation` is the cookie with which the sign-in leads back to the invitation.
 */
export function signInFirstPage(
  { email }: OfferedMembership,
  { form, signedInAs, invitation }: { form: FormToken; signedInAs: string | null; invitation: string },
): Response {
  const cookies = [form.setCookie, invitation]
  if (signedInAs === null) {
    const body = html`<p>This invitation is for ${email}. <a href="/account/sign-in?next=accept">Sign in</a> with this address to accept it.</p>`
    return accountsPage('Sign in first', body, { status: 403, cookies })
  }
  const leave = actionForm('/account/sign-out?next=accept', form, html``, 'Sign out, and use the other account')
  const body = html`<p>This invitation is for ${email}. You are signed in as ${signedInAs}.</p>${leave}`
  return accountsPage('Use the other account', body, { status: 403, cookies, signedIn: form })
}

export function brokenLinkPage(): Response {
  const body = html`<p>It was used, has expired, or a newer one was made. Ask for a new one, or <a href="/account/sign-in">sign in</a> if you have used it.</p><p><a href="/account/forgotten">Get a link to set a new password</a></p>`
  return accountsPage('This link does not work', body, { status: 404 })
}

/** For a form that does not come from a page of this server. */
export function foreignFormPage(origin: string): Response {
  const body = html`<p>The form did not come from a page of this server, or the page was too old. Nothing was changed. Open the page again, at ${origin}.</p>`
  return accountsPage('Nothing was changed', body, { status: 403 })
}

export function tooOftenPage(seconds: number): Response {
  const body = html`<p>Too many attempts. Wait ${String(seconds)} ${seconds === 1 ? 'second' : 'seconds'}, then try again.</p>`
  const response = accountsPage('Wait a little', body, { status: 429 })
  response.headers.set('Retry-After', String(seconds))
  return response
}

/** How a button looks: `main` is what most people press, `danger` ends something for good. */
type Look = 'main' | 'plain' | 'danger'

export function actionForm(action: string, form: FormToken, fields: Html, button: string, look: Look = 'main'): Html {
  return html`<form method="post" action="${action}" enctype="multipart/form-data">${hidden(form)}${fields}<button class="${look}">${button}</button></form>`
}
