/** The page of a person's own account. */

import type { Refusal } from '../../../lib/errors.ts'
import { type Html, html } from '../../../lib/html.ts'
import { toCentsRoundingDown } from '../../../lib/money.ts'
import { toTimestamp } from '../../../lib/time.ts'
import type { FoundSession, ListedSession, Membership } from '../sessions/session.ts'
import type { FormToken } from './browser.ts'
import { browserName } from './browserName.ts'
import { labelOf, type NamedMembership } from './organizationLabel.ts'
import {
  accountsPage,
  actionForm,
  CURRENT_PASSWORD,
  type FormView,
  focused,
  NEW_PASSWORD,
  problemLine,
  type SignInWays,
} from './views.ts'

export interface OwnPageView extends FormView {
  readonly session: FoundSession
  readonly sessions: readonly ListedSession[]
  readonly memberships: readonly NamedMembership[]
  /** True when the person is the only owner of the organization that the session acts for. */
  readonly isLastOwner: boolean
  readonly done?: string
  /** The form that was refused, by its address, and its field. */
  readonly refusedIn?: { readonly action: string; readonly field: string }
  readonly ways: SignInWays
  readonly hasPassword: boolean
  /** Of the organization that the session acts for, in micro-cents; null: the person is a member of none. */
  readonly balanceMicrocents: bigint | null
  /** True when this server takes payments. */
  readonly takesPayments: boolean
  /** Where people reach this server. */
  readonly server: string
}

/** Says what is wrong with a form of the page. */
export function faultIn(action: string, { message, param }: Refusal): Pick<OwnPageView, 'problem' | 'refusedIn'> {
  return { problem: message, ...(param ? { refusedIn: { action, field: param } } : {}) }
}

/** A form of the page, with the focus on the field that was refused. */
function ownForm({ form, refusedIn }: OwnPageView, action: string, fields: Html, button: string): Html {
  const refused = refusedIn?.action === action ? refusedIn.field : undefined
  return actionForm(action, form, focused(fields, refused), button, 'plain')
}

export function accountPage(view: OwnPageView): Response {
  const { session, form, problem, done, sessions, ways, hasPassword } = view
  const { status = problem === undefined ? 200 : 422 } = view
  const { person, membership } = session
  const said = done === undefined ? html`` : html`<p class="done" role="status">${done}</p>`
  const body = html`${problemLine(problem)}${said}<p>${person.name}, ${person.email}</p>${actingFor(view)}
    ${nextSteps(view)}
    <h2>Password</h2>${ownForm(view, '/account/password', html`${hiddenUsername(person.email)}${CURRENT_PASSWORD}${NEW_PASSWORD}`, 'Change the password')}
    <h2>Mail address</h2>${addressForm(view)}
    ${waysSection(ways)}
    <h2>Where you are signed in</h2><ul>${sessions.map((each) => sessionLine(each, session.id, form))}</ul>
    <h2>Your data</h2><p><a href="/account/export">Download everything that this server stores about you</a></p>
    <h2>Erase your account</h2>${eraseForm(form, hasPassword)}
    ${membership === null ? html`` : endsOf(view, membership)}`
  return accountsPage('Your account', body, { status, cookies: [form.setCookie], signedIn: form })
}

/** The organization that the session acts for, and the others. */
function actingFor({ session: { membership }, memberships, form }: OwnPageView): Html {
  const others = memberships.filter(({ organizationId }) => organizationId !== membership?.organizationId)
  const acting =
    membership === null
      ? html`<p>You are a member of no organization. Ask an admin of yours for an invitation.</p>`
      : html`<p>You act for the organization ${labelOf(membership, memberships, true)}.</p>`
  return html`${acting}${others.map((each) => actionForm('/account/organization', form, organizationOf(each), `Act for ${labelOf(each, memberships)}`, 'plain'))}`
}

/** The balance, and how a program gets to call models. Nothing for a member of no organization. */
function nextSteps({ balanceMicrocents, takesPayments, server }: OwnPageView): Html {
  if (balanceMicrocents === null) return html``
  const topUp = takesPayments ? html` <code>tollgate topup 20</code> begins a payment of $20.` : html``
  return html`<h2>Use it</h2><p>The balance of the organization is ${dollarsOf(balanceMicrocents)}.${topUp}</p>
    <p>To call models, run <code>tollgate login --server ${server}</code>. It shows a code: type it at <a href="/account/device">Log a program in</a>.</p>
    <p>The operator of this server gives you the command <code>tollgate</code> as a file, <code>tollgate-cli-….tgz</code>. With Node 20.3 or newer, <code>npm install --global FILE</code> installs it.</p>`
}

/** Whole cents, rounded down as everywhere: `$25.00`, `-$0.50`. */
function dollarsOf(microcents: bigint): string {
  const cents = toCentsRoundingDown(microcents)
  return `${cents < 0 ? '-' : ''}$${(Math.abs(cents) / 100).toFixed(2)}`
}

function organizationOf({ organizationId }: Pick<NamedMembership, 'organizationId'>): Html {
  return html`<input type="hidden" name="organization" value="${organizationId}">`
}

/** Tells password managers whose password is changed. It is not sent. */
function hiddenUsername(email: string): Html {
  return html`<input type="email" autocomplete="username" value="${email}" readonly hidden>`
}

function addressForm(view: OwnPageView): Html {
  const { typed } = view
  const address = html`<label>New e-mail address <input name="email" type="email" required maxlength="254" autocomplete="off" value="${typed?.('email') ?? ''}"></label>`
  return ownForm(view, '/account/new-address', html`${address}${CURRENT_PASSWORD}`, 'Change the address')
}

/** The form with which a person erases the account. Without a password it asks for none: a sign-in of the last minutes stands for it. */
export function eraseForm(form: FormToken, hasPassword: boolean): Html {
  const sure = html`<label><input type="checkbox" name="sure" value="yes" required> My memberships and my API keys end, and my name and address are erased here. This can't be undone.</label>`
  const fields = html`<p>The organizations stay. If you are the last owner of one, make another member an owner first.</p>${hasPassword ? CURRENT_PASSWORD : html``}${sure}`
  return actionForm('/account/erase', form, fields, 'Erase my account', 'danger')
}

/** Returns how a membership, and the organization, come to their ends. */
function endsOf(view: OwnPageView, membership: Membership): Html {
  const label = labelOf(membership, view.memberships)
  const remove =
    membership.role === 'owner' ? html`<h2>Delete the organization</h2>${deleteForm(view, membership, label)}` : html``
  return html`<h2>Leave the organization</h2>${leaveForm(view, membership, label)}${remove}`
}

function leaveForm({ isLastOwner, form }: OwnPageView, membership: Membership, label: string): Html {
  if (isLastOwner)
    return html`<p>You are the last owner of ${label}: make another member an owner before you leave.</p>`
  const sure = html`<label><input type="checkbox" name="sure" value="yes" required> My API keys of this organization end, and I am signed out.</label>`
  return actionForm('/account/leave', form, html`${organizationOf(membership)}${sure}`, `Leave ${label}`, 'danger')
}

function deleteForm({ form }: OwnPageView, membership: Membership, label: string): Html {
  const fields = html`${organizationOf(membership)}<p>API keys, members, webhook endpoints, videos, instances, auto-pay and subscriptions of the organization end for everybody. Credit that is left is not paid out. It can't be undone.</p><label>To delete the organization, type its name <input name="name" required maxlength="200" autocomplete="off"></label>`
  return html`<details><summary>Delete ${label}</summary>${actionForm('/account/delete-organization', form, fields, `Delete ${label}`, 'danger')}</details>`
}

/** The page after a deletion, for a person who is a member of no other organization. */
export function deletedPage(organizationName: string, cookie: string): Response {
  const body = html`<p>The organization “${organizationName}” is deleted. You are a member of no other, so you are signed out.</p><p><a href="/account/sign-in">Sign in</a></p>`
  return accountsPage('The organization is deleted', body, { cookies: [cookie] })
}

function waysSection({ passkeys, identityProviders }: SignInWays): Html {
  if (!passkeys && identityProviders.length === 0) return html``
  const keys = passkeys ? html`<p><a href="/account/passkeys">Your passkeys</a></p>` : html``
  const others =
    identityProviders.length > 0 ? html`<p><a href="/account/identities">Other ways to sign in</a></p>` : html``
  return html`<h2>Signing in without a password</h2>${keys}${others}`
}

function sessionLine({ id, createdAtMs, address, userAgent }: ListedSession, ownId: string, form: FormToken): Html {
  const since = `${toTimestamp(createdAtMs).slice(0, 16).replace('T', ' ')} UTC`
  const where = html`<span title="${userAgent ?? ''}">${browserName(userAgent)}</span>, from ${address || 'an unknown address'}, since ${since}`
  if (id === ownId) return html`<li>${where} (this browser)</li>`
  const field = html`<input type="hidden" name="session" value="${id}">`
  return html`<li>${where} ${actionForm('/account/end-session', form, field, 'Sign out there', 'plain')}</li>`
}
