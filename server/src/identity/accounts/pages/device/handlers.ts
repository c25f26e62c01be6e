/** The pages of device logins. The session that types a code decides on the login. */

import { isEveryRight, type Resource, SCOPE_RESOURCES } from '../../../../http/principal.ts'
import { approveDeviceLogin, claimDeviceLogin, denyDeviceLogin, readClaimedLogin } from '../../device/decide.ts'
import { narrowScopes } from '../../device/deviceLogin.ts'
import { listMemberships } from '../../members/list.ts'
import { findSession } from '../../sessions/authenticate.ts'
import type { FoundSession, Membership } from '../../sessions/session.ts'
import { labelOf } from '../organizationLabel.ts'
import { redirect, tooOftenPage } from '../views.ts'
import { MEMBERSHIPS_SHOWN, type PageDependencies, type PageHandle, sent, type Visit } from '../visit.ts'
import {
  type Acting,
  approvedPage,
  decidePage,
  decidePath,
  deniedPage,
  enterCodePage,
  goneLoginPage,
  memberOfNonePage,
} from './views.ts'

/** A person who is signed in as a member of an organization. */
interface Deciding {
  readonly session: FoundSession
  readonly membership: Membership
  readonly acting: Acting
  /** As the session stands for in `device_logins`. */
  readonly claimant: { readonly sessionId: string; readonly memberId: string }
}

const NEEDS_EVERY_RIGHT =
  'With an admin’s rights a program needs every right in full. Choose the first line of each, or untick the box.'
const WRONG_CODE = 'This code does not work. Look at it again, or log in again on the machine to get a new one.'

/** Hands a visit of a member on; asks anybody else to sign in. */
function asMember(
  dependencies: PageDependencies,
  answer: (visit: Visit, deciding: Deciding) => Promise<Response> | Response,
): (visit: Visit) => Promise<Response> {
  return async (visit) => {
    const session = await findSession(dependencies, visit.values.session)
    if (session === null) return redirect('/account/sign-in?next=device')
    const { membership } = session
    if (membership === null) return memberOfNonePage()
    const memberships = await listMemberships(dependencies.database, session.person.id, MEMBERSHIPS_SHOWN)
    const acting = { organization: labelOf(membership, memberships), role: membership.role }
    const claimant = { sessionId: session.id, memberId: membership.memberId }
    return answer(visit, { session, membership, acting, claimant })
  }
}

/** The resources that a person chooses of: those that this server has. */
function offeredBy({ offersInstances }: PageDependencies): readonly Resource[] {
  return SCOPE_RESOURCES.filter((resource) => resource !== 'instances' || offersInstances)
}

/** GET /account/device. */
export function showEnterCode(dependencies: PageDependencies): PageHandle {
  return asMember(dependencies, ({ form }, { acting }) => enterCodePage(acting, { form }))
}

/** POST /account/device: claims a login by its code. */
export function postEnteredCode(dependencies: PageDependencies): PageHandle {
  const { attempts } = dependencies
  return sent(
    dependencies,
    asMember(dependencies, async (visit, { session, acting, claimant }) => {
      const seconds =
        (await attempts.byPerson('userCode', session.person.id)) ??
        (await attempts.byAddress('userCode', visit.address)) ??
        (await attempts.inTotal('userCode', session.person.id))
      if (seconds !== null) return tooOftenPage(seconds)
      const id = await claimDeviceLogin(dependencies, visit.field('code'), claimant)
      if (id === null) return enterCodePage(acting, { form: visit.form, problem: WRONG_CODE })
      return redirect(decidePath(id))
    }),
  )
}

/** GET /account/device/approve. */
export function showDecision(dependencies: PageDependencies): PageHandle {
  return asMember(dependencies, async ({ login: id, form }, { acting, claimant }) => {
    const login = await readClaimedLogin(dependencies, id, claimant)
    return login === null ? goneLoginPage() : decidePage(login, acting, { form, offered: offeredBy(dependencies) })
  })
}

/** POST /account/device/approve. */
export function postApproval(dependencies: PageDependencies): PageHandle {
  return sent(
    dependencies,
    asMember(dependencies, async (visit, { session, membership, acting, claimant }) => {
      const login = await readClaimedLogin(dependencies, visit.login, claimant)
      if (login === null) return goneLoginPage()
      const offered = offeredBy(dependencies)
      const shown = { form: visit.form, offered, chosen: visit.field }
      const again = (problem: string) => decidePage(login, acting, { ...shown, problem })
      const admin = visit.field('admin') === 'yes'
      const scopes = narrowScopes(login.scopes, offered, visit.field, admin)
      if (!scopes.ok) return again(scopes.refusal.message)
      if (admin && membership.role === 'member') return again('Only an admin gives a program an admin’s rights.')
      if (admin && !isEveryRight(scopes.value)) return again(NEEDS_EVERY_RIGHT)
      const approver = {
        ...claimant,
        organizationId: membership.organizationId,
        actor: { kind: 'user', id: session.person.id, address: visit.address },
      } as const
      const approved = await approveDeviceLogin(dependencies, login, approver, { scopes: scopes.value, admin })
      if (approved.ok) return approvedPage(login.name)
      return approved.refusal.code === 'rate_limit_exceeded' ? again(approved.refusal.message) : goneLoginPage()
    }),
  )
}

/** POST /account/device/deny. */
export function postDenial(dependencies: PageDependencies): PageHandle {
  return sent(
    dependencies,
    asMember(dependencies, async ({ login: id }, { claimant }) =>
      (await denyDeviceLogin(dependencies, id, claimant)) ? deniedPage() : goneLoginPage(),
    ),
  )
}
