import { type Html, html } from '../../../lib/html.ts'
import { toTimestamp } from '../../../lib/time.ts'
import type { FormToken } from '../pages/browser.ts'
import { accountsPage, actionForm, hidden, problemLine } from '../pages/views.ts'
import type { Passkey } from './passkey.ts'
import { PASSKEY_SCRIPT } from './script.ts'

const NAME = html`<label>Name, such as “My laptop” <input name="name" required maxlength="60" autocomplete="off"></label>`
const NO_SCRIPT = html`<noscript><p class="problem">This page needs JavaScript, to ask your device.</p></noscript>`
const FAILED =
  'Your device gave no passkey: it was cancelled, took too long, or this browser has none for this server. Try again.'
const KNOWN = 'This device has a passkey of yours already.'

interface AskedView {
  readonly form: FormToken
  /** The browser asks the device with these. */
  readonly options: object
  readonly problem?: string
}

/** The page on which a person adds a passkey. */
export function newPasskeyPage(view: AskedView): Response {
  const before = html`<p>Your device keeps the passkey, and asks for your finger, your face or its PIN when you sign in with it.</p>`
  return asking('Add a passkey', html`${before}${deviceForm(view, NAME, 'Add the passkey', true)}`, view, 422)
}

/** The page on which somebody signs in with a passkey. `query`: what the address of the other way ends with. */
export function passkeySignInPage(view: AskedView & { readonly query: string }): Response {
  const after = html`<p><a href="/account/sign-in${view.query}">Sign in with a password</a></p>`
  return asking('Sign in with a passkey', html`${deviceForm(view, html``, 'Use a passkey', false)}${after}`, view, 401)
}

function asking(title: string, body: Html, { form, problem }: AskedView, status: number): Response {
  const trouble = html`<p class="problem" id="problem" role="alert" hidden data-failed="${FAILED}" data-known="${KNOWN}"></p>`
  return accountsPage(title, html`${problemLine(problem)}${NO_SCRIPT}${body}${trouble}`, {
    status: problem === undefined ? 200 : status,
    cookies: [form.setCookie],
    script: PASSKEY_SCRIPT,
  })
}

function deviceForm({ form, options }: AskedView, fields: Html, button: string, isNew: boolean): Html {
  const flag = isNew ? html` data-new` : html``
  return html`<form method="post" enctype="multipart/form-data" data-passkey="${JSON.stringify(options)}"${flag}>${hidden(form)}<input type="hidden" name="answer">${fields}<button>${button}</button></form>`
}

/** The passkeys of a person. */
export function passkeysPage(view: {
  readonly form: FormToken
  readonly passkeys: readonly Passkey[]
  readonly problem?: string
}): Response {
  const { form, passkeys, problem } = view
  const list =
    passkeys.length === 0
      ? html`<p>You have no passkey.</p>`
      : html`<ul>${passkeys.map((each) => passkeyLine(each, form))}</ul>`
  const body = html`${problemLine(problem)}${list}<p><a href="/account/passkeys/new">Add a passkey</a></p>`
  return accountsPage('Your passkeys', body, {
    status: problem === undefined ? 200 : 422,
    cookies: [form.setCookie],
    signedIn: form,
  })
}

function passkeyLine({ id, name, createdAtMs, lastUsedAtMs }: Passkey, form: FormToken): Html {
  const used = lastUsedAtMs === null ? 'never used' : `last used ${dayOf(lastUsedAtMs)}`
  const which = html`<input type="hidden" name="passkey" value="${id}">`
  const rename = html`${which}<label>Name <input name="name" value="${name}" required maxlength="60" autocomplete="off"></label>`
  return html`<li>${name}, added ${dayOf(createdAtMs)}, ${used}
    ${actionForm('/account/passkeys/rename', form, rename, 'Rename', 'plain')}${actionForm('/account/passkeys/remove', form, which, 'Remove', 'danger')}</li>`
}

function dayOf(instantMs: number): string {
  return toTimestamp(instantMs).slice(0, 10)
}
