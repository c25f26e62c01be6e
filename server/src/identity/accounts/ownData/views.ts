import { html } from '../../../lib/html.ts'
import { eraseForm } from '../pages/accountView.ts'
import type { FormToken } from '../pages/browser.ts'
import { accountsPage, problemLine } from '../pages/views.ts'

/** The page on which a person erases the account. */
export function erasePage(view: {
  readonly form: FormToken
  readonly hasPassword: boolean
  readonly problem?: string
}): Response {
  const { form, hasPassword, problem } = view
  const body = html`${problemLine(problem)}${eraseForm(form, hasPassword)}`
  const status = problem === undefined ? 200 : 422
  return accountsPage('Erase your account', body, { status, cookies: [form.setCookie], signedIn: form })
}

export function erasedPage(cookies: readonly string[]): Response {
  const body = html`<p>Your account is erased, and you are signed out everywhere. This server knows your name and your address no more.</p>`
  return accountsPage('Your account is erased', body, { cookies })
}

export function tooManyExportsPage(): Response {
  const body = html`<p>Too many downloads are open at this moment. Let one end, then <a href="/account">try again</a>.</p>`
  return accountsPage('Wait a little', body, { status: 429 })
}
