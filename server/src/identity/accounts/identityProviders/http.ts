/** The pages of identity providers. */

import type { Handle } from '../../../http/pipeline.ts'
import type { PublicPrincipal } from '../../../http/principal.ts'
import type { Log } from '../../../lib/log.ts'
import { type Cookies, clearFlow, setFlow } from '../pages/browser.ts'
import { redirect, signInAgainPage } from '../pages/views.ts'
import type { NextPage, SignedVisit, Visit, VisitGuards } from '../pages/visit.ts'
import { drawSecret } from '../secrets/token.ts'
import { findSession } from '../sessions/authenticate.ts'
import type { BeginDependencies } from '../sessions/begin.ts'
import { isRecent } from '../sessions/session.ts'
import { type FlowPurpose, flowOf, flowWith } from './flow.ts'
import type { Identity, IdentityProvider } from './identity.ts'
import { type IdentityLinkDependencies, linkIdentity, listIdentities, unlinkIdentity } from './link.ts'
import { signInByIdentity } from './signIn.ts'
import { continuePage, identitiesPage, notLinkedPage, providerAwayPage, refusedTherePage, stalePage } from './views.ts'

export interface IdentityHttpDependencies extends IdentityLinkDependencies, BeginDependencies {
  readonly log: Log
  readonly guards: VisitGuards<IdentityHandle>
  readonly cookies: Cookies
  readonly providers: readonly IdentityProvider[]
  /** Of this server, such as `https://gateway.example`. */
  readonly origin: () => string
  /** Jobs were enqueued and committed. */
  readonly onEnqueued: () => void
}

type IdentityHandle = Handle<PublicPrincipal>

const LIST = '/account/identities'

/** The parameters of a provider's answer that count. */
const ANSWER = ['code', 'state', 'iss', 'error']

/** GET /account/identities. */
export function showIdentities(dependencies: IdentityHttpDependencies): IdentityHandle {
  return dependencies.guards.own((visit) => identitiesOf(dependencies, visit))
}

async function identitiesOf(
  { database, providers }: IdentityHttpDependencies,
  { form, session }: SignedVisit,
  told: { readonly problem?: string; readonly cookie?: string } = {},
) {
  const linked = await listIdentities(database, session.person.id, providers)
  return identitiesPage({ form, providers, linked, ...told })
}

/** POST /account/identity/{id}: leads to the provider, to sign in. */
export function postIdentity(dependencies: IdentityHttpDependencies, provider: IdentityProvider): IdentityHandle {
  return dependencies.guards.attempted(({ next }) => leadTo(dependencies, provider, { kind: 'sign_in', next }))
}

/** POST /account/identity/{id}/link: leads to the provider, to link the person's account there. */
export function postIdentityLink(dependencies: IdentityHttpDependencies, provider: IdentityProvider): IdentityHandle {
  return dependencies.guards.ownChange(async ({ session, values }) =>
    isRecent(session, dependencies.clock.now())
      ? leadTo(dependencies, provider, { kind: 'link', sessionToken: values.session ?? '' })
      : signInAgainPage(),
  )
}

async function leadTo(dependencies: IdentityHttpDependencies, provider: IdentityProvider, purpose: FlowPurpose) {
  const secret = drawSecret(dependencies.random)
  const flow = flowOf(secret, provider.id, purpose)
  try {
    const url = await provider.askAt(flow, redirectUriOf(dependencies, provider))
    return continuePage(provider.name, url, setFlow(dependencies.cookies, secret))
  } catch (error) {
    noteFailure(dependencies.log, provider, error)
    return providerAwayPage(provider.name, null, nextOf(purpose))
  }
}

/** The page that the person was on the way to. */
function nextOf(purpose: FlowPurpose): NextPage {
  return purpose.kind === 'sign_in' ? purpose.next : 'account'
}

function redirectUriOf({ origin }: IdentityHttpDependencies, { id }: IdentityProvider): string {
  return `${origin()}/account/identity/${id}/callback`
}

/** Errors of the package have the answer of the provider, tokens and all, as their cause: it is left out. */
function noteFailure(log: Log, { id }: IdentityProvider, error: unknown): void {
  const { message, code } = error instanceof Error ? (error as Error & { code?: unknown }) : { message: 'unknown' }
  log.warn(
    { identity_provider: id, code: String(code ?? ''), reason: message },
    'accounts: an identity provider failed',
  )
}

/** GET /account/identity/{id}/callback: the provider sends the browser here. */
export function showIdentityCallback(
  dependencies: IdentityHttpDependencies,
  provider: IdentityProvider,
): IdentityHandle {
  return dependencies.guards.counted(async (visit) => {
    const { name } = provider
    const spent = clearFlow(dependencies.cookies)
    const { flow: secret, session } = visit.values
    const known = flowWith(visit.asked('state'), secret, provider.id, session)
    if (known === null) return stalePage(name, spent)
    const { purpose, flow } = known
    const redirectUri = redirectUriOf(dependencies, provider)
    let identity: Identity | null
    try {
      identity = await provider.identify(answerOf(visit), flow, redirectUri, purpose.kind === 'link')
    } catch (error) {
      noteFailure(dependencies.log, provider, error)
      return providerAwayPage(name, spent, nextOf(purpose))
    }
    if (identity === null) return refusedTherePage(name, spent, nextOf(purpose))
    return purpose.kind === 'link'
      ? link(dependencies, visit, provider, identity, spent)
      : enter(dependencies, { ...visit, next: purpose.next }, provider, identity, spent)
  })
}

function answerOf(visit: Visit): URLSearchParams {
  const given = ANSWER.map((name) => [name, visit.asked(name)]).filter(([, value]) => value !== '')
  return new URLSearchParams(given)
}

async function enter(
  dependencies: IdentityHttpDependencies,
  visit: Visit,
  { name }: IdentityProvider,
  identity: Identity,
  spent: string,
): Promise<Response> {
  const token = await signInByIdentity(dependencies, visit, identity)
  if (token === null) return notLinkedPage(name, spent, visit.next)
  const response = await dependencies.guards.entered(visit, token)
  response.headers.append('Set-Cookie', spent)
  return response
}

async function link(
  dependencies: IdentityHttpDependencies,
  visit: Visit,
  provider: IdentityProvider,
  identity: Identity,
  spent: string,
): Promise<Response> {
  const session = await findSession(dependencies, visit.values.session)
  if (session === null) return redirect('/account/sign-in', [spent])
  // The way to the provider and back may have taken as long as somebody wanted.
  if (!isRecent(session, dependencies.clock.now())) return signInAgainPage()
  const owner = { person: session.person, address: visit.address }
  const linked = await linkIdentity(dependencies, owner, provider, identity)
  if (!linked.ok) {
    const told = { problem: linked.refusal.message, cookie: spent }
    return identitiesOf(dependencies, { ...visit, session }, told)
  }
  dependencies.onEnqueued()
  return redirect(LIST, [spent])
}

/** POST /account/identity/{id}/unlink. */
export function postIdentityUnlink(dependencies: IdentityHttpDependencies, provider: IdentityProvider): IdentityHandle {
  return dependencies.guards.ownForm(async (visit) => {
    const owner = { person: visit.session.person, address: visit.address }
    const unlinked = await unlinkIdentity(dependencies, owner, provider)
    if (!unlinked.ok) return identitiesOf(dependencies, visit, { problem: unlinked.refusal.message })
    dependencies.onEnqueued()
    return redirect(LIST)
  })
}
