/** The pages of passkeys. */

import type { Handle } from '../../../http/pipeline.ts'
import type { PublicPrincipal } from '../../../http/principal.ts'
import type { Result } from '../../../lib/result.ts'
import { redirect, signInAgainPage } from '../pages/views.ts'
import { nextQuery, type SignedVisit, type Visit, type VisitGuards } from '../pages/visit.ts'
import { isRecent } from '../sessions/session.ts'
import { listPasskeys, removePasskey, renamePasskey } from './own.ts'
import { addPasskey, askForPasskey, type RegisterDependencies } from './register.ts'
import { askToSignIn, type PasskeySignInDependencies, signInByPasskey } from './signIn.ts'
import { newPasskeyPage, passkeySignInPage, passkeysPage } from './views.ts'

export interface PasskeyHttpDependencies extends RegisterDependencies, PasskeySignInDependencies {
  readonly guards: VisitGuards<PasskeyHandle>
  /** Jobs were enqueued and committed. */
  readonly onEnqueued: () => void
}

type PasskeyHandle = Handle<PublicPrincipal>

const LIST = '/account/passkeys'
const NOT_SIGNED_IN =
  'You are not signed in: the page was too old, or this server does not know the passkey. Try again, or sign in with your password.'

/** GET /account/passkeys. */
export function showPasskeys(dependencies: PasskeyHttpDependencies): PasskeyHandle {
  return dependencies.guards.own((visit) => passkeysOf(dependencies, visit))
}

async function passkeysOf(dependencies: PasskeyHttpDependencies, visit: SignedVisit, problem?: string) {
  const passkeys = await listPasskeys(dependencies.database, visit.session.person.id)
  return passkeysPage({ form: visit.form, passkeys, ...(problem === undefined ? {} : { problem }) })
}

/** GET /account/passkeys/new. */
export function showNewPasskey(dependencies: PasskeyHttpDependencies): PasskeyHandle {
  return dependencies.guards.own((visit) => newPasskeyOf(dependencies, visit))
}

async function newPasskeyOf(dependencies: PasskeyHttpDependencies, visit: SignedVisit, problem?: string) {
  const { session, form } = visit
  if (!isRecent(session, dependencies.clock.now())) return signInAgainPage()
  const options = await askForPasskey(dependencies, { person: session.person, formToken: form.token })
  return newPasskeyPage({ form, options, ...(problem === undefined ? {} : { problem }) })
}

/** POST /account/passkeys/new. */
export function postNewPasskey(dependencies: PasskeyHttpDependencies): PasskeyHandle {
  return dependencies.guards.ownChange(async (visit) => {
    const { session, form, address } = visit
    if (!isRecent(session, dependencies.clock.now())) return signInAgainPage()
    const sent = { name: visit.field('name'), answer: visit.field('answer') }
    const added = await addPasskey(dependencies, { person: session.person, formToken: form.token, address }, sent)
    if (!added.ok) return newPasskeyOf(dependencies, visit, added.refusal.message)
    dependencies.onEnqueued()
    return redirect(LIST)
  })
}

/** POST /account/passkeys/rename. */
export function postRenamePasskey(dependencies: PasskeyHttpDependencies): PasskeyHandle {
  return dependencies.guards.ownChange((visit) => {
    const owner = { person: visit.session.person, address: visit.address }
    const [id, name] = [visit.field('passkey'), visit.field('name')]
    return afterChange(dependencies, visit, renamePasskey(dependencies, owner, id, name))
  })
}

/** POST /account/passkeys/remove. */
export function postRemovePasskey(dependencies: PasskeyHttpDependencies): PasskeyHandle {
  return dependencies.guards.ownForm((visit) => {
    const owner = { person: visit.session.person, address: visit.address }
    return afterChange(dependencies, visit, removePasskey(dependencies, owner, visit.field('passkey')))
  })
}

async function afterChange(dependencies: PasskeyHttpDependencies, visit: SignedVisit, change: Promise<Result<void>>) {
  const changed = await change
  if (!changed.ok) return passkeysOf(dependencies, visit, changed.refusal.message)
  dependencies.onEnqueued()
  return redirect(LIST)
}

/** GET /account/passkey. */
export function showPasskeySignIn(dependencies: PasskeyHttpDependencies): PasskeyHandle {
  return dependencies.guards.counted((visit) => signInOf(dependencies, visit))
}

async function signInOf(dependencies: PasskeyHttpDependencies, { form, next }: Visit, problem?: string) {
  const options = await askToSignIn(dependencies, form.token)
  return passkeySignInPage({ form, options, query: nextQuery(next), ...(problem === undefined ? {} : { problem }) })
}

/** POST /account/passkey. The session that the browser had before ends. */
export function postPasskeySignIn(dependencies: PasskeyHttpDependencies): PasskeyHandle {
  return dependencies.guards.attempted(async (visit) => {
    const { form, address, userAgent } = visit
    const browser = { formToken: form.token, address, userAgent }
    const token = await signInByPasskey(dependencies, browser, visit.field('answer'))
    return token === null ? signInOf(dependencies, visit, NOT_SIGNED_IN) : dependencies.guards.entered(visit, token)
  })
}
