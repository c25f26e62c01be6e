/** One request of a browser for a page: its cookies and fields, who is signed in with it, and how somebody comes to be. */

import type { Database, Transaction } from '../../../infra/postgres/database.ts'
import type { Refusal } from '../../../lib/errors.ts'
import type { Result } from '../../../lib/result.ts'
import type { Actor } from '../../audit/entry.ts'
import type { OpenAccount } from '../../organizations/register.ts'
import { signIn } from '../entry/signIn.ts'
import type { MemberDependencies } from '../members/change.ts'
import { isLastOwner, listMemberships } from '../members/list.ts'
import { findPasswordHash } from '../people/find.ts'
import type { Person } from '../people/person.ts'
import type { AttemptCounter } from '../secrets/attempts.ts'
import type { Passwords } from '../secrets/betterAuth.ts'
import { isKnownBrowser, type KnownBrowserDependencies, markBrowser } from '../secrets/knownBrowser.ts'
import { findSession } from '../sessions/authenticate.ts'
import { endSession, listSessions } from '../sessions/own.ts'
import type { FoundSession } from '../sessions/session.ts'
import { accountPage, type OwnPageView } from './accountView.ts'
import { type Cookies, type CookieValues, type FormToken, setKnownBrowser, setSession } from './browser.ts'
import {
  brokenLinkPage,
  type FormFault,
  type FormView,
  foreignFormPage,
  redirect,
  type SignInWays,
  tooOftenPage,
} from './views.ts'

/** Deletes an organization for one of its owners, by a member id. Refused as the management interface does. */
export type DeleteOrganization = (who: {
  readonly organizationId: string
  readonly typedName: string
  readonly actor: Actor
  readonly ownerId: string
}) => Promise<Result<unknown>>

export interface PageDependencies extends KnownBrowserDependencies {
  readonly database: Database
  readonly passwords: Passwords
  readonly cookies: Cookies
  readonly attempts: AttemptCounter
  /** Withdraws open invitations that a member may not make any more. */
  readonly endInvitations: MemberDependencies['endInvitations']
  /** True when strangers may register. */
  readonly takesStrangers: boolean
  readonly openAccount: OpenAccount
  readonly deleteOrganization: DeleteOrganization
  /** The ways of signing in beside a password. */
  readonly ways: SignInWays
  /** True when links can be sent. */
  readonly sendsLinks: boolean
  /** True when they go by mail; else they are written to a file for the operator. */
  readonly mailsLinks: boolean
  /** True when this server rents machines. */
  readonly offersInstances: boolean
  /** True when this server takes payments. */
  readonly takesPayments: boolean
  /** Reads the balance of an organization, in micro-cents. */
  readonly readBalance: (organizationId: string) => Promise<bigint>
  /** The first person has an account. Never rejects. */
  readonly onSetUp: () => Promise<void>
  /** Jobs were enqueued and committed. */
  readonly onEnqueued: () => void
  /** Enqueues the mail that tells a person of a changed password. */
  readonly tellPasswordChanged: (tx: Transaction, person: Person) => Promise<void>
  /** Enqueues the mails that tell both addresses of a person's change of address. */
  readonly tellAddressChanged: (tx: Transaction, person: Person, email: string) => Promise<void>
  /** Of this server, such as `https://gateway.example`. */
  readonly origin: () => string
}

/** Answers a request for a page. */
export type PageHandle = (visit: Visit) => Response | Promise<Response>

/** One request of a browser. */
export interface Visit {
  readonly values: CookieValues
  readonly address: string
  readonly userAgent: string
  readonly form: FormToken
  /** Of the link that led here. */
  readonly secret: string
  /** The device login that the page is about: anybody's text. */
  readonly login: string
  /** Where to go after a sign-in. */
  readonly next: NextPage
  /** Of a form; empty where it is missing. */
  field(name: string): string
  /** The same of the query. */
  asked(name: string): string
  /** Returns whether the form comes from a page of this server, in this browser. */
  isOwnForm(): boolean
  /** Aborted when the browser hangs up. */
  readonly signal: AbortSignal
  /** Keeps the request counted as open after its handler has returned, for an answer that is made while it is sent. */
  holdOpen(): () => void
}

/** Of a person who is signed in. */
export interface SignedVisit extends Visit {
  readonly session: FoundSession
}

/** Makes handlers of functions that may rely on what the guard has checked. */
export interface VisitGuards<Handler> {
  /** A page for a person who is signed in; anybody else is led to the sign-in. */
  own(show: (visit: SignedVisit) => Promise<Response>): Handler
  /** A form of such a page. */
  ownForm(change: (visit: SignedVisit) => Promise<Response>): Handler
  /** The same for a form that makes something that is kept: a person may send few of them (`attempts.ts`). */
  ownChange(change: (visit: SignedVisit) => Promise<Response>): Handler
  /** A page for anybody. It counts as an attempt of its address, as it costs a row or could be used to guess. */
  counted(show: (visit: Visit) => Promise<Response>): Handler
  /** A form of such a page. */
  attempted(change: (visit: Visit) => Promise<Response>): Handler
  /** Replaces the browser's session with the one of this token, and redirects to the next page. */
  entered(visit: Visit, token: string): Promise<Response>
}

export const ACCOUNT_PATH = '/account'
/** The pages that a sign-in may lead to, by the word in its address. */
export const NEXT_PAGES = { account: ACCOUNT_PATH, device: '/account/device', accept: '/account/accept' } as const
export type NextPage = keyof typeof NEXT_PAGES
const SESSIONS_SHOWN = 20
export const MEMBERSHIPS_SHOWN = 50

/** The query with which another page of the sign-in leads to the same page after it. */
export function nextQuery(next: NextPage): string {
  return next === 'account' ? '' : `?next=${next}`
}

/** The address of the sign-in for somebody who may be signed in too, which leads to the same page after it. */
export function signInAgainPath(next: NextPage): string {
  return `/account/sign-in?again=yes${nextQuery(next).replace('?', '&')}`
}

/** A form of a page. One that comes from anywhere else changes nothing. */
export function sent(dependencies: PageDependencies, change: (visit: Visit) => Promise<Response>): PageHandle {
  return (visit) => (visit.isOwnForm() ? change(visit) : foreignFormPage(dependencies.origin()))
}

/** The same for forms with which secrets could be guessed: each counts as an attempt of its address. */
export function attempted(dependencies: PageDependencies, change: (visit: Visit) => Promise<Response>): PageHandle {
  return sent(dependencies, async (visit) => {
    const seconds = await dependencies.attempts.byAddress('signIn', visit.address)
    return seconds === null ? change(visit) : tooOftenPage(seconds)
  })
}

/** Signs a person in whose password was just set, or shows what is wrong. */
export async function enter(
  dependencies: PageDependencies,
  visit: Visit,
  made: Result<Person>,
  password: string,
  showFault: (fault: FormFault) => Response,
): Promise<Response> {
  if (!made.ok) return made.refusal.code === 'validation_failed' ? showFault(faultOf(made.refusal)) : brokenLinkPage()
  const begun = await signInBrowser(dependencies, visit, made.value.email, password)
  return begun === null ? redirect('/account/sign-in') : redirect(ACCOUNT_PATH, begun)
}

/** Says what is wrong with a form in which a person sets a password. */
function faultOf({ message, param }: Refusal): FormFault {
  return { problem: message, ...(param ? { refused: param === 'password' ? 'new_password' : param } : {}) }
}

/** Begins a session, and ends the one that the browser had; returns the cookies. Null when address or password are wrong. */
export async function signInBrowser(
  dependencies: PageDependencies,
  visit: Visit,
  email: string,
  password: string,
): Promise<readonly string[] | null> {
  const { address, userAgent } = visit
  const begun = await signIn(dependencies, { email, password, address, userAgent })
  if (begun === null) return null
  return handOver(dependencies, visit, begun.token, email)
}

/** Gives the browser a session that was begun for the person with a mail address, and ends the one that it had; returns the cookies. */
export async function handOver(
  dependencies: PageDependencies,
  { values }: Visit,
  token: string,
  email: string,
): Promise<readonly string[]> {
  const { database, cookies } = dependencies
  const before = await findSession(dependencies, values.session)
  if (before !== null) await endSession(database, before.person.id, before.id)
  const isKnown = await isKnownBrowser(dependencies, values.known, email)
  return [setSession(cookies, token), ...(isKnown ? [] : [await knownFromNowOn(dependencies, email)])]
}

/** Returns the cookie by which the browser of a person is known from now on. */
export async function knownFromNowOn(dependencies: PageDependencies, email: string): Promise<string> {
  return setKnownBrowser(dependencies.cookies, await markBrowser(dependencies, email))
}

/** The person's own page. */
export async function accountOf(
  dependencies: PageDependencies,
  session: FoundSession,
  form: FormToken,
  said: Pick<FormView, 'problem' | 'typed'> & Pick<OwnPageView, 'refusedIn'> & { readonly done?: string } = {},
): Promise<Response> {
  const { id } = session.person
  const sessions = await listSessions(dependencies, id, null, SESSIONS_SHOWN)
  const memberships = await listMemberships(dependencies.database, id, MEMBERSHIPS_SHOWN)
  const hasPassword = (await findPasswordHash(dependencies.database, id)) !== null
  const { membership } = session
  const isLast = membership !== null && (await isLastOwner(dependencies.database, membership.memberId))
  const balanceMicrocents = membership === null ? null : await dependencies.readBalance(membership.organizationId)
  const { ways, takesPayments } = dependencies
  const server = dependencies.origin()
  const shown = {
    sessions,
    memberships,
    hasPassword,
    isLastOwner: isLast,
    ways,
    takesPayments,
    balanceMicrocents,
    server,
  }
  return accountPage({ session, form, ...shown, ...said })
}

/** A form of a person who is signed in. */
export function signedIn(
  dependencies: PageDependencies,
  change: (visit: Visit, session: FoundSession) => Promise<Response>,
): PageHandle {
  return sent(dependencies, async (visit) => {
    const session = await findSession(dependencies, visit.values.session)
    return session === null ? redirect('/account/sign-in') : change(visit, session)
  })
}
