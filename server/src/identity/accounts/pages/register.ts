/** The pages with which strangers register. Without the setting they are not there. */

import { readRegistration, register, requestRegistration } from '../entry/register.ts'
import {
  brokenLinkPage,
  finishRegistrationPage,
  noMailPage,
  registerPage,
  registrationSentPage,
  tooOftenPage,
} from './views.ts'
import { attempted, enter, type PageDependencies, type PageHandle, sent } from './visit.ts'

/** GET /account/register. */
export function showRegister(dependencies: PageDependencies): PageHandle {
  const { sendsLinks, mailsLinks } = dependencies
  return ({ form }) => (sendsLinks ? registerPage({ form }, mailsLinks) : noMailPage())
}

/** POST /account/register. The answer is the same whether anybody has the address, and whether it was asked too often. */
export function postRegister(dependencies: PageDependencies): PageHandle {
  return sent(dependencies, async (visit) => {
    const { sendsLinks, mailsLinks, attempts, onEnqueued } = dependencies
    if (!sendsLinks) return noMailPage()
    const seconds = await attempts.byAddress('registration', visit.address)
    if (seconds !== null) return tooOftenPage(seconds)
    const asked = await requestRegistration(dependencies, visit.field('email'), (email) =>
      attempts.byEmail('registration', email),
    )
    const fault = (problem: string) => ({ form: visit.form, problem, refused: 'email', typed: visit.field })
    if (!asked.ok) return registerPage(fault(asked.refusal.message), mailsLinks)
    onEnqueued()
    return registrationSentPage(mailsLinks)
  })
}

/** GET /account/register/finish, where the link leads. */
export function showFinishRegistration(dependencies: PageDependencies): PageHandle {
  return async ({ secret, form }) => {
    const email = await readRegistration(dependencies, secret)
    return email === null ? brokenLinkPage() : finishRegistrationPage(email, { form })
  }
}

/** POST /account/register/finish: makes the account and its organization, and signs in. */
export function postFinishRegistration(dependencies: PageDependencies): PageHandle {
  return attempted(dependencies, async (visit) => {
    const { secret, address, form } = visit
    const email = await readRegistration(dependencies, secret)
    if (email === null) return brokenLinkPage()
    const [name, organization, password] = [
      visit.field('name'),
      visit.field('organization'),
      visit.field('new_password'),
    ]
    const made = await register(dependencies, secret, { name, organization, password }, address)
    return enter(dependencies, visit, made, password, (fault) =>
      finishRegistrationPage(email, { form, ...fault, typed: visit.field }),
    )
  })
}
