/** The pages of accounts. Anybody may ask for one; each looks at its browser's cookies itself. */

import { changePassword, readReset, resetPassword } from '../entry/password.ts'
import { requestReset } from '../entry/requestReset.ts'
import { setUpFirstPerson } from '../entry/setUp.ts'
import { acceptAsNewPerson, acceptInvitation, type OfferedMembership, readInvitation } from '../invitations/accept.ts'
import { readLink } from '../links/link.ts'
import { removeMember } from '../members/change.ts'
import { listMemberships } from '../members/list.ts'
import { waitToSignIn } from '../secrets/signInLimit.ts'
import { findSession } from '../sessions/authenticate.ts'
import { endChosenSession, endSession, switchOrganization } from '../sessions/own.ts'
import { type FoundSession, isRecent, type Membership } from '../sessions/session.ts'
import { deletedPage, faultIn } from './accountView.ts'
import { clearInvitation, clearSession, setInvitation } from './browser.ts'
import { labelOf } from './organizationLabel.ts'
import {
  acceptPage,
  brokenLinkPage,
  type FormFault,
  forgottenPage,
  noMailPage,
  redirect,
  resetPage,
  sentPage,
  setUpPage,
  signInAgainPage,
  signInFirstPage,
  signInPage,
  tooOftenPage,
} from './views.ts'
import {
  ACCOUNT_PATH,
  accountOf,
  attempted,
  enter,
  knownFromNowOn,
  MEMBERSHIPS_SHOWN,
  NEXT_PAGES,
  type NextPage,
  nextQuery,
  type PageDependencies,
  type PageHandle,
  sent,
  signedIn,
  signInBrowser,
  type Visit,
} from './visit.ts'

const WRONG_SIGN_IN = 'The address or the password is wrong.'

/** GET /account/set-up. */
export function showSetUp(dependencies: PageDependencies): PageHandle {
  return async ({ secret, form }) =>
    (await readLink(dependencies.database, dependencies.clock, secret, 'set_up')) === null
      ? brokenLinkPage()
      : setUpPage({ form })
}

/** POST /account/set-up. */
export function postSetUp(dependencies: PageDependencies): PageHandle {
  return attempted(dependencies, async (visit) => {
    const [name, email, password] = [visit.field('name'), visit.field('email'), visit.field('new_password')]
    const made = await setUpFirstPerson(dependencies, visit.secret, { name, email, password }, visit.address)
    if (made.ok) await dependencies.onSetUp()
    return enter(dependencies, visit, made, password, (fault) =>
      setUpPage({ form: visit.form, ...fault, typed: visit.field }),
    )
  })
}

/** GET /account/sign-in. With `again`, for somebody who is signed in too. */
export function showSignIn(dependencies: PageDependencies): PageHandle {
  return async ({ values, form, next, asked }) =>
    asked('again') !== '' || (await findSession(dependencies, values.session)) === null
      ? signInPage({ form, ...shownToSignIn(dependencies, next) })
      : redirect(NEXT_PAGES[next])
}

/** POST /account/sign-in. The session that the browser had before ends. */
export function postSignIn(dependencies: PageDependencies): PageHandle {
  return sent(dependencies, async (visit) => {
    const [email, password] = [visit.field('email').trim().toLowerCase(), visit.field('password')]
    const seconds = await waitToSignIn(dependencies, { known: visit.values.known, address: visit.address }, email)
    if (seconds !== null) return tooOftenPage(seconds)
    const begun = await signInBrowser(dependencies, visit, email, password)
    const shown = shownToSignIn(dependencies, visit.next)
    const fault = { problem: WRONG_SIGN_IN, refused: 'password', status: 401 }
    if (begun === null) return signInPage({ form: visit.form, typed: visit.field, ...fault, ...shown })
    return redirect(NEXT_PAGES[visit.next], begun)
  })
}

function shownToSignIn({ takesStrangers, sendsLinks, ways }: PageDependencies, next: NextPage) {
  return { offersRegistration: takesStrangers && sendsLinks, ways, query: nextQuery(next) }
}

/** GET /account/forgotten. */
export function showForgotten(dependencies: PageDependencies): PageHandle {
  const { sendsLinks, mailsLinks } = dependencies
  return ({ form }) => (sendsLinks ? forgottenPage({ form }, mailsLinks) : noMailPage())
}

/** POST /account/forgotten. The answer is the same whether anybody has the address, and whether it was asked too often. */
export function postForgotten(dependencies: PageDependencies): PageHandle {
  return sent(dependencies, async (visit) => {
    if (!dependencies.sendsLinks) return noMailPage()
    const seconds = await dependencies.attempts.byAddress('reset', visit.address)
    if (seconds !== null) return tooOftenPage(seconds)
    const email = visit.field('email')
    if ((await dependencies.attempts.byEmail('reset', email)) === null) await requestReset(dependencies, email)
    return sentPage(dependencies.mailsLinks)
  })
}

/** GET /account/reset. */
export function showReset(dependencies: PageDependencies): PageHandle {
  return async ({ secret, form }) => {
    const person = await readReset(dependencies, secret)
    return person === null ? brokenLinkPage() : resetPage(person.email, { form })
  }
}

/** POST /account/reset. */
export function postReset(dependencies: PageDependencies): PageHandle {
  return attempted(dependencies, async (visit) => {
    const password = visit.field('new_password')
    const person = await readReset(dependencies, visit.secret)
    if (person === null) return brokenLinkPage()
    const reset = await resetPassword(dependencies, visit.secret, password, visit.address)
    if (reset.ok) dependencies.onEnqueued()
    return enter(dependencies, visit, reset, password, (fault) =>
      resetPage(person.email, { form: visit.form, ...fault }),
    )
  })
}

/** Returns the secret of the invitation that a visit is about: of the link, or after a sign-in of the cookie that it left. */
function invitationOf({ secret, values }: Visit): string {
  return secret === '' ? (values.invitation ?? '') : secret
}

/** GET /account/accept. */
export function showAccept(dependencies: PageDependencies): PageHandle {
  return async (visit) => {
    const offered = await readInvitation(dependencies, invitationOf(visit))
    if (offered === null) return brokenLinkPage()
    const session = await findSession(dependencies, visit.values.session)
    const isTheirs = offered.hasAccount ? session?.person.email === offered.email : true
    return isTheirs ? acceptPage(offered, { form: visit.form }) : askToSignIn(dependencies, visit, offered, session)
  }
}

function askToSignIn(
  { cookies }: PageDependencies,
  visit: Visit,
  offered: OfferedMembership,
  session: FoundSession | null,
): Response {
  const invitation = setInvitation(cookies, invitationOf(visit))
  return signInFirstPage(offered, { form: visit.form, signedInAs: session?.person.email ?? null, invitation })
}

/** POST /account/accept. */
export function postAccept(dependencies: PageDependencies): PageHandle {
  return attempted(dependencies, async (visit) => {
    const { address, form } = visit
    const secret = invitationOf(visit)
    const offered = await readInvitation(dependencies, secret)
    if (offered === null) return brokenLinkPage()
    const showFault = (fault: FormFault) => acceptPage(offered, { form, ...fault, typed: visit.field })
    if (!offered.hasAccount) {
      const [name, password] = [visit.field('name'), visit.field('new_password')]
      const made = await acceptAsNewPerson(dependencies, secret, { name, password }, address)
      return enter(dependencies, visit, made, password, showFault)
    }
    const session = await findSession(dependencies, visit.values.session)
    if (session?.person.email !== offered.email) return askToSignIn(dependencies, visit, offered, session)
    const accepted = await acceptInvitation(dependencies, secret, session.person, address)
    if (!accepted.ok) {
      const { code, message } = accepted.refusal
      return code === 'validation_failed' ? showFault({ problem: message }) : brokenLinkPage()
    }
    await switchOrganization(dependencies, { id: session.id, userId: session.person.id }, offered.organizationId)
    return redirect(ACCOUNT_PATH, [clearInvitation(dependencies.cookies)])
  })
}

/** GET /account. */
export function showAccount(dependencies: PageDependencies): PageHandle {
  return async (visit) => {
    const session = await findSession(dependencies, visit.values.session)
    return session === null ? redirect('/account/sign-in') : accountOf(dependencies, session, visit.form)
  }
}

/** POST /account/password. */
export function postPassword(dependencies: PageDependencies): PageHandle {
  return signedIn(dependencies, async (visit, session) => {
    const { person, id: sessionId } = session
    const seconds = await dependencies.attempts.byPerson('password', person.id)
    if (seconds !== null) return tooOftenPage(seconds)
    const who = { person, sessionId, address: visit.address }
    const changed = await changePassword(dependencies, who, visit.field('password'), visit.field('new_password'))
    if (!changed.ok) return accountOf(dependencies, session, visit.form, faultIn('/account/password', changed.refusal))
    dependencies.onEnqueued()
    const done = 'Your password is changed, and your other sessions have ended.'
    const page = await accountOf(dependencies, session, visit.form, { done })
    page.headers.append('Set-Cookie', await knownFromNowOn(dependencies, person.email))
    return page
  })
}

/** POST /account/organization: has the session act for another organization of the person. */
export function postOrganization(dependencies: PageDependencies): PageHandle {
  return signedIn(dependencies, async (visit, { id, person }) => {
    await switchOrganization(dependencies, { id, userId: person.id }, visit.field('organization'))
    return redirect(ACCOUNT_PATH)
  })
}

/** POST /account/leave: the person leaves the organization that the session acts for, and is signed out. */
export function postLeave(dependencies: PageDependencies): PageHandle {
  return signedIn(dependencies, async (visit, session) => {
    const { membership, person } = session
    if (membership === null) return redirect(ACCOUNT_PATH)
    const { organizationId, memberId } = membership
    // The page is older than another choice of the organization, or the box was not ticked.
    if (visit.field('organization') !== organizationId || visit.field('sure') !== 'yes')
      return accountOf(dependencies, session, visit.form, { problem: 'Nothing was changed. Tick the box to leave.' })
    const actor = { kind: 'user', id: person.id, address: visit.address } as const
    const change = { organizationId, memberId, actor, actingId: memberId }
    const left = await removeMember(dependencies, change, async () => [])
    if (!left.ok) return accountOf(dependencies, session, visit.form, { problem: left.refusal.message })
    return redirect('/account/sign-in', [clearSession(dependencies.cookies)])
  })
}

/**
 * POST /account/delete-organization: deletes the organization that the session acts for, if the person has typed its name and has signed
 * in lately. A person who is a member of no other is signed out.
 */
export function postDeleteOrganization(dependencies: PageDependencies): PageHandle {
  return signedIn(dependencies, async (visit, session) => {
    const { membership, person } = session
    if (membership === null) return redirect(ACCOUNT_PATH)
    const { organizationId, memberId } = membership
    const shown = (problem: string) => accountOf(dependencies, session, visit.form, { problem })
    // The page is older than another choice of the organization.
    if (visit.field('organization') !== organizationId) return shown('Nothing was deleted. Look at the page again.')
    if (!isRecent(session, dependencies.clock.now())) return signInAgainPage('This deletes an organization')
    const deleted = await dependencies.deleteOrganization({
      organizationId,
      typedName: visit.field('name').trim(),
      actor: { kind: 'user', id: person.id, address: visit.address },
      ownerId: memberId,
    })
    if (!deleted.ok) return shown(deleted.refusal.message)
    const now = await findSession(dependencies, visit.values.session)
    if (now === null) return deletedPage(membership.organizationName, clearSession(dependencies.cookies))
    return accountOf(dependencies, now, visit.form, { done: await deletionTold(dependencies, membership, now) })
  })
}

/** Says which organization was deleted, and which one the session acts for now. Two of the same name are told apart. */
async function deletionTold({ database }: PageDependencies, deleted: Membership, { person, membership }: FoundSession) {
  const all = [deleted, ...(await listMemberships(database, person.id, MEMBERSHIPS_SHOWN))]
  const now = membership === null ? 'are a member of no organization' : `act for ${labelOf(membership, all)}`
  return `The organization ${labelOf(deleted, all)} is deleted. You ${now} now.`
}

/** POST /account/end-session: ends another session of the person. */
export function postEndSession(dependencies: PageDependencies): PageHandle {
  return signedIn(dependencies, async (visit, { person }) => {
    await endChosenSession(dependencies, { userId: person.id, address: visit.address }, visit.field('session'))
    return redirect(ACCOUNT_PATH)
  })
}

/** POST /account/sign-out. */
export function postSignOut(dependencies: PageDependencies): PageHandle {
  return signedIn(dependencies, async ({ next }, { id, person }) => {
    await endSession(dependencies.database, person.id, id)
    return redirect(`/account/sign-in${nextQuery(next)}`, [clearSession(dependencies.cookies)])
  })
}
