/** Turns a request for a page into a visit: what the handlers of pages see of it. */

import { cookieOf } from '../../../http/cookie.ts'
import { formFields } from '../../../http/formFields.ts'
import { isOwnPage } from '../../../http/middleware/sameOrigin.ts'
import type { Handle, RouteRequest } from '../../../http/pipeline.ts'
import type { PublicPrincipal } from '../../../http/principal.ts'
import { splitUrl } from '../../../http/routeTable.ts'
import { isLoopback } from '../../../lib/loopback.ts'
import { formTokenOf, isOwnForm } from './browser.ts'
import { redirect } from './views.ts'
import { NEXT_PAGES, type NextPage, type PageDependencies, type PageHandle, type Visit } from './visit.ts'

/** Returns the handler of a route for the handler of a page. */
export function handlePage(dependencies: PageDependencies, answer: PageHandle): Handle<PublicPrincipal> {
  return (call) => leadHome(dependencies, call) ?? answer(visitOf(dependencies, call))
}

/**
 * Leads a browser that opens a page at another name of this machine, such as 127.0.0.1 for localhost, to the origin of the settings:
 * forms are taken from there alone. Other hosts may be the doing of a proxy, which names itself: a redirect could go round in circles.
 */
function leadHome({ origin }: PageDependencies, { request }: RouteRequest<PublicPrincipal>): Response | null {
  const host = request.headers.get('Host')
  if (host === null || (request.method !== 'GET' && request.method !== 'HEAD')) return null
  const home = new URL(origin())
  const [, name = '', port = ''] = /^(.*?)(?::(\d+))?$/.exec(host) ?? []
  if (name === home.hostname || port !== home.port || !isLoopback(name) || !isLoopback(home.hostname)) return null
  const { path, query } = splitUrl(request.url)
  return redirect(`${home.origin}${path}${query === '' ? '' : `?${query}`}`)
}

function visitOf({ cookies, random, origin }: PageDependencies, call: RouteRequest<PublicPrincipal>): Visit {
  const header = call.request.headers.get('Cookie')
  const values = {
    session: cookieOf(header, cookies.session),
    form: cookieOf(header, cookies.form),
    known: cookieOf(header, cookies.known),
    flow: cookieOf(header, cookies.flow),
    invitation: cookieOf(header, cookies.invitation),
  }
  const fields = formFields(call.body)
  const field = (name: string) => fields.get(name) ?? ''
  return {
    values,
    address: call.principal.address,
    userAgent: call.request.headers.get('User-Agent') ?? '',
    form: formTokenOf(cookies, values, random),
    secret: call.query.get('token') ?? '',
    login: call.query.get('login') ?? '',
    next: nextOf(call.query.get('next')),
    field,
    asked: (name) => call.query.get(name) ?? '',
    isOwnForm: () => isOwnPage(call.request.headers, origin()) && isOwnForm(values, field('csrf')),
    signal: call.request.signal,
    holdOpen: call.holdOpen,
  }
}

/** Anybody may write the word into the address: it names a page of ours, or counts as none. */
function nextOf(word: string | null): NextPage {
  return word !== null && Object.hasOwn(NEXT_PAGES, word) ? (word as NextPage) : 'account'
}
