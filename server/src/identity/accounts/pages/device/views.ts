/** The pages of device logins. */

import { isEveryRight, type Level, type Resource, type Role } from '../../../../http/principal.ts'
import { type Html, html } from '../../../../lib/html.ts'
import { type ClaimedLogin, grantableLevels } from '../../device/deviceLogin.ts'
import { accountsPage, type FormView, formPage, hidden, problemLine } from '../views.ts'

const ENTER_PATH = '/account/device'
const DECIDE_PATH = '/account/device/approve'
const DENY_PATH = '/account/device/deny'

const CODE = html`<label>The code that the program shows <input name="code" required maxlength="40" autocomplete="off" autocapitalize="characters" spellcheck="false" autofocus></label>`

/** The address of the page on which a login is decided. */
export function decidePath(id: string): string {
  return `${DECIDE_PATH}?login=${encodeURIComponent(id)}`
}

/** The organization that the session acts for, as pages call it. */
export interface Acting {
  readonly organization: string
  readonly role: Role
}

export function enterCodePage({ organization }: Acting, view: FormView): Response {
  const before = html`<p>A program, such as <code>tollgate login</code>, shows you a code. With the code you let it act for the organization ${organization}.</p>
    <p>Type only a code that you have asked for yourself, on a machine in front of you. Nobody of this server asks you for one.</p>`
  return formPage('Log a program in', before, CODE, 'Continue', { ...view, isSignedIn: true })
}

/** Says what a level of a resource lets a program do, in words that a narrow screen shows in full. */
const RIGHTS: Readonly<Record<Resource, { readonly title: string } & Readonly<Record<Level, string>>>> = {
  serverless: { title: 'Models', write: 'see and call, at your cost', read: 'see', none: 'nothing' },
  billing: {
    title: 'Balance, usage and limits',
    write: 'see, pay and change limits',
    read: 'see',
    none: 'nothing',
  },
  webhooks: { title: 'Webhook endpoints and events', write: 'see and change', read: 'see', none: 'nothing' },
  instances: { title: 'Instances', write: 'see, rent and delete machines', read: 'see', none: 'nothing' },
}

export interface DecideView extends FormView {
  /** The resources that the person chooses of. */
  readonly offered: readonly Resource[]
  /** Returns what was chosen when the form was last sent: the level of a resource, or `yes` for `admin`. */
  readonly chosen?: (field: Resource | 'admin') => string
}

export function decidePage(login: ClaimedLogin, { organization, role }: Acting, view: DecideView): Response {
  const { form, problem, offered, chosen, status = problem === undefined ? 200 : 422 } = view
  const rights = offered.map((resource) => rightOf(resource, login.scopes[resource], chosen?.(resource)))
  const admin =
    role === 'member' || !isEveryRight(login.scopes) ? html`` : adminBox(chosen?.('admin') === 'yes', offered)
  const deny = `${DENY_PATH}?login=${encodeURIComponent(login.id)}`
  const body = html`${problemLine(problem)}<p>A program asks for an API key of the organization ${organization}.</p>
    <ul><li>Its machine calls itself <bdi>${login.name}</bdi>.</li><li>It asks from the address ${login.address}.</li>
    <li>The key acts for you. It expires after 90 days, and ends when you leave the organization.</li></ul>
    <p>If you do not know the machine or the address, deny it.</p>
    <form method="post" action="${decidePath(login.id)}" enctype="multipart/form-data">${hidden(form)}<p>The program may do this with:</p>${rights}${admin}<button>Approve</button><button class="danger" formaction="${deny}">Deny</button></form>`
  return accountsPage('Approve the program?', body, { status, cookies: [form.setCookie], signedIn: form })
}

function adminBox(isTicked: boolean, offered: readonly Resource[]): Html {
  const ticked: Html = { html: isTicked ? ' checked' : '' }
  const more = offered.includes('instances')
    ? html``
    : html` It may rent instances too, if this server offers them one day.`
  return html`<label><input type="checkbox" name="admin" value="yes"${ticked}> An admin’s rights: it makes keys, invites people and changes members, too. That needs every right above in full.${more}</label>`
}

/** The choice of a level, from all that is asked for down to nothing. */
function rightOf(resource: Resource, asked: Level, chosen: string | undefined): Html {
  const levels = [...grantableLevels(asked)].reverse()
  const isChosen = (level: Level): Html => ({ html: level === chosen ? ' selected' : '' })
  const options = levels.map(
    (level) => html`<option value="${level}"${isChosen(level)}>${RIGHTS[resource][level]}</option>`,
  )
  return html`<label>${RIGHTS[resource].title} <select name="${resource}">${options}</select></label>`
}

export function approvedPage(name: string): Response {
  const body = html`<p>The program on <bdi>${name}</bdi> gets its key within some seconds. You can close this page.</p>`
  return accountsPage('Approved', body)
}

export function deniedPage(): Response {
  return accountsPage('Denied', html`<p>The program gets no key. You can close this page.</p>`)
}

/** For a login that can't be decided: unknown, expired, decided, or claimed by another session. */
export function goneLoginPage(): Response {
  const body = html`<p>This login does not wait for you. Log in again on the machine, then <a href="${ENTER_PATH}">type the new code</a>.</p>`
  return accountsPage('Log in again', body, { status: 404 })
}

export function memberOfNonePage(): Response {
  const body = html`<p>You are a member of no organization. Ask an admin of yours for an invitation.</p>`
  return accountsPage('Log a program in', body, { status: 403 })
}
