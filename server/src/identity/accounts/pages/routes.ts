/** The pages of accounts, beneath /account. They are in no description. */

import { publicAccess } from '../../../http/access.ts'
import type { Handle } from '../../../http/pipeline.ts'
import type { PublicPrincipal } from '../../../http/principal.ts'
import { ACCOUNT, patternOf, ROOT, type Route } from '../../../http/route.ts'
import { findSession } from '../sessions/authenticate.ts'
import { postConfirmAddress, postNewAddress, showConfirmAddress } from './address.ts'
import {
  postAccept,
  postDeleteOrganization,
  postEndSession,
  postForgotten,
  postLeave,
  postOrganization,
  postPassword,
  postReset,
  postSetUp,
  postSignIn,
  postSignOut,
  showAccept,
  showAccount,
  showForgotten,
  showReset,
  showSetUp,
  showSignIn,
} from './handlers.ts'
import { handlePage } from './http.ts'
import { postFinishRegistration, postRegister, showFinishRegistration, showRegister } from './register.ts'
import { redirect, tooOftenPage } from './views.ts'
import {
  ACCOUNT_PATH,
  attempted,
  handOver,
  NEXT_PAGES,
  type PageDependencies,
  type PageHandle,
  signedIn,
  type VisitGuards,
} from './visit.ts'

/** A form has a few short fields. */
const FORM = { body: 'form', bodyLimitBytes: 16 * 1024 } as const

/** Of the pages that a link leads to. */
const LINK = { query: ['token'] } as const

/** The page that comes after the sign-in; and `again`, for somebody who is signed in. A form is sent to the address of its page. */
const SIGN_IN = { query: ['next', 'again'] } as const

type Page = Extract<Route, { readonly access: typeof publicAccess }>

export function accountPageRoutes(dependencies: PageDependencies): Route[] {
  const page = pageOf(dependencies)
  return [
    ...(dependencies.takesStrangers ? registrationRoutes(dependencies) : []),
    page('GET', '', showAccount(dependencies)),
    page('GET', '/', () => redirect(ACCOUNT_PATH)),
    { ...page('GET', '/', () => redirect(ACCOUNT_PATH)), base: ROOT },
    { ...page('GET', '/sign-in', showSignIn(dependencies)), ...SIGN_IN },
    { ...page('POST', '/sign-in', postSignIn(dependencies)), ...FORM, ...SIGN_IN },
    { ...page('POST', '/sign-out', postSignOut(dependencies)), ...FORM, query: ['next'] },
    { ...page('POST', '/password', postPassword(dependencies)), ...FORM },
    { ...page('POST', '/organization', postOrganization(dependencies)), ...FORM },
    { ...page('POST', '/leave', postLeave(dependencies)), ...FORM },
    { ...page('POST', '/delete-organization', postDeleteOrganization(dependencies)), ...FORM },
    { ...page('POST', '/end-session', postEndSession(dependencies)), ...FORM },
    { ...page('POST', '/new-address', postNewAddress(dependencies)), ...FORM },
    { ...page('GET', '/address', showConfirmAddress(dependencies)), ...LINK },
    { ...page('POST', '/address', postConfirmAddress(dependencies)), ...FORM, ...LINK },
    page('GET', '/forgotten', showForgotten(dependencies)),
    { ...page('POST', '/forgotten', postForgotten(dependencies)), ...FORM },
    { ...page('GET', '/set-up', showSetUp(dependencies)), ...LINK },
    { ...page('POST', '/set-up', postSetUp(dependencies)), ...FORM, ...LINK },
    { ...page('GET', '/reset', showReset(dependencies)), ...LINK },
    { ...page('POST', '/reset', postReset(dependencies)), ...FORM, ...LINK },
    { ...page('GET', '/accept', showAccept(dependencies)), ...LINK },
    { ...page('POST', '/accept', postAccept(dependencies)), ...FORM, ...LINK },
  ]
}

/**
 * Adds to pages a way back for browsers that open the address of a form, as by a reload: it leads to the page with the form. `pages` may
 * have other routes among them.
 */
export function withWaysBack(dependencies: PageDependencies, pages: readonly Route[]): Route[] {
  const shown = new Set(pages.filter(({ method }) => method === 'GET').map(patternOf))
  const page = pageOf(dependencies)
  const back = pages.flatMap((route) => {
    if (route.base !== ACCOUNT || route.method !== 'POST' || shown.has(patternOf(route))) return []
    const to = NEXT_PAGES[route.path.startsWith('/device') ? 'device' : 'account']
    const { query } = route
    return [{ ...page('GET', route.path, () => redirect(to)), ...(query === undefined ? {} : { query }) }]
  })
  return [...pages, ...back]
}

function registrationRoutes(dependencies: PageDependencies): Route[] {
  const page = pageOf(dependencies)
  return [
    page('GET', '/register', showRegister(dependencies)),
    { ...page('POST', '/register', postRegister(dependencies)), ...FORM },
    { ...page('GET', '/register/finish', showFinishRegistration(dependencies)), ...LINK },
    { ...page('POST', '/register/finish', postFinishRegistration(dependencies)), ...FORM, ...LINK },
  ]
}

function pageOf(dependencies: PageDependencies) {
  return (method: 'GET' | 'POST', path: string, answer: PageHandle): Page => ({
    base: ACCOUNT,
    method,
    path,
    access: publicAccess,
    handle: handlePage(dependencies, answer),
  })
}

/** The guards of pages, for those of other folders. */
export function pageGuards(dependencies: PageDependencies): VisitGuards<Handle<PublicPrincipal>> {
  return {
    own: (show) =>
      handlePage(dependencies, async (visit) => {
        const session = await findSession(dependencies, visit.values.session)
        return session === null ? redirect('/account/sign-in') : show({ ...visit, session })
      }),
    ownForm: (change) =>
      handlePage(
        dependencies,
        signedIn(dependencies, (visit, session) => change({ ...visit, session })),
      ),
    ownChange: (change) =>
      handlePage(
        dependencies,
        signedIn(dependencies, async (visit, session) => {
          const seconds = await dependencies.attempts.byPerson('change', session.person.id)
          return seconds === null ? change({ ...visit, session }) : tooOftenPage(seconds)
        }),
      ),
    counted: (show) =>
      handlePage(dependencies, async (visit) => {
        const seconds = await dependencies.attempts.byAddress('signIn', visit.address)
        return seconds === null ? show(visit) : tooOftenPage(seconds)
      }),
    attempted: (change) => handlePage(dependencies, attempted(dependencies, change)),
    entered: async (visit, token) => {
      const begun = await findSession(dependencies, token)
      if (begun === null) return redirect('/account/sign-in')
      return redirect(NEXT_PAGES[visit.next], await handOver(dependencies, visit, token, begun.person.email))
    },
  }
}
