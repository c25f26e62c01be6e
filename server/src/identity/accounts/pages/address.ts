/** The pages of a new mail address. */

import { confirmAddress, readAddress, requestAddress } from '../entry/address.ts'
import { findSession } from '../sessions/authenticate.ts'
import { faultIn } from './accountView.ts'
import { brokenLinkPage, confirmAddressPage, noMailPage, redirect, tooOftenPage } from './views.ts'
import { accountOf, type PageDependencies, type PageHandle, signedIn } from './visit.ts'

/** POST /account/new-address: sends a link to the new address. */
export function postNewAddress(dependencies: PageDependencies): PageHandle {
  return signedIn(dependencies, async (visit, session) => {
    if (!dependencies.sendsLinks) return noMailPage()
    const { attempts } = dependencies
    const { person } = session
    const email = visit.field('email')
    const seconds =
      (await attempts.byPerson('newAddress', person.id)) ??
      (await attempts.byPerson('password', person.id)) ??
      (await attempts.byAddress('newAddress', visit.address))
    if (seconds !== null) return tooOftenPage(seconds)
    const asked = await requestAddress(
      dependencies,
      { person, address: visit.address },
      email,
      visit.field('password'),
      async (known) => attempts.byEmail('newAddress', known),
    )
    if (!asked.ok) {
      const fault = faultIn('/account/new-address', asked.refusal)
      return accountOf(dependencies, session, visit.form, { ...fault, typed: visit.field })
    }
    dependencies.onEnqueued()
    const way = dependencies.mailsLinks
      ? 'a mail with a link is on its way to it'
      : 'a link is written to a file on this server, which sends no mail. Ask the operator for it'
    const done = `If ${asked.value} can be your address, ${way}. Open the link in this browser, within an hour.`
    return accountOf(dependencies, session, visit.form, { done })
  })
}

/** GET /account/address, where the link leads. */
export function showConfirmAddress(dependencies: PageDependencies): PageHandle {
  return async ({ secret, form, values }) => {
    const session = await findSession(dependencies, values.session)
    if (session === null) return redirect('/account/sign-in')
    const email = await readAddress(dependencies, secret, session.person)
    return email === null ? brokenLinkPage() : confirmAddressPage(email, { form })
  }
}

/** POST /account/address: the new address is the person's. */
export function postConfirmAddress(dependencies: PageDependencies): PageHandle {
  return signedIn(dependencies, async (visit, session) => {
    const { person, id: sessionId } = session
    const who = { person, sessionId, address: visit.address }
    const changed = await confirmAddress(dependencies, visit.secret, who)
    if (!changed.ok) return brokenLinkPage()
    dependencies.onEnqueued()
    const now = await findSession(dependencies, visit.values.session)
    const done = 'Your address is changed, and your other sessions have ended.'
    return now === null ? redirect('/account/sign-in') : accountOf(dependencies, now, visit.form, { done })
  })
}
