/** The routes and pages with which people export and erase their own data. */

import { z } from 'zod'
import { cookieOf } from '../../../http/cookie.ts'
import type { Prepare } from '../../../http/onceForKey.ts'
import type { Answer, Handle, RouteRequest } from '../../../http/pipeline.ts'
import type { PublicPrincipal, SessionPrincipal } from '../../../http/principal.ts'
import { textStream } from '../../../http/textStream.ts'
import { validate } from '../../../http/validate.ts'
import { addressGroup, type ClientAddress } from '../../../lib/clientAddress.ts'
import { refusal } from '../../../lib/errors.ts'
import type { Log } from '../../../lib/log.ts'
import { ok, type Result } from '../../../lib/result.ts'
import { MINUTE_MS, utcDay } from '../../../lib/time.ts'
import { type Cookies, clearKnownBrowser, clearSession } from '../pages/browser.ts'
import { signInAgainPage, tooOftenPage } from '../pages/views.ts'
import type { SignedVisit, Visit, VisitGuards } from '../pages/visit.ts'
import { findPasswordHash } from '../people/find.ts'
import type { TypingBrowser } from '../secrets/signInLimit.ts'
import { findSession } from '../sessions/authenticate.ts'
import { type FoundSession, isRecent, SESSION_ENDED } from '../sessions/session.ts'
import { type EraseDependencies, type ErasedPerson, erasePerson } from './erase.ts'
import { writeOwnData } from './export.ts'
import { createOwnExportPlaces } from './places.ts'
import { type ProofDependencies, proveOneself, SIGN_IN_AGAIN } from './proof.ts'
import { erasedPage, erasePage, tooManyExportsPage } from './views.ts'

export interface OwnDataDependencies extends EraseDependencies, ProofDependencies {
  readonly database: EraseDependencies['database']
  readonly log: Log
  readonly cookies: Cookies
  readonly clientAddress: ClientAddress
  readonly guards: VisitGuards<Handle<PublicPrincipal>>
  /** Exports break off when the server is to stop. */
  readonly isStopping: () => boolean
  /** Jobs were enqueued and committed. */
  readonly onEnqueued: () => void
}

/** An export has ended by then, or is cut off. */
const EXPORT_LONGEST_MS = 10 * MINUTE_MS

export const erasureRequest = z
  .strictObject({
    password: z.string().max(200).optional().meta({
      description:
        "The person's password. Omit it if they have none; they must then have signed in within the last ten minutes.",
    }),
  })
  .meta({ id: 'ErasureRequest' })

const TOO_MANY = refusal(
  'rate_limit_exceeded',
  'Too many exports are open at this moment. Read one to its end, or close it, then try again.',
  { retryAfterSeconds: 5 },
)

/** The parts of a request that an export needs. */
type Exporting = Pick<Visit, 'signal' | 'holdOpen'> & { readonly session: FoundSession; readonly token: string | null }

/** Returns the function that answers with the file of a person; null where too many are open. */
export function createOwnExporter(dependencies: OwnDataDependencies) {
  const { clock, log, isStopping } = dependencies
  const enter = createOwnExportPlaces()
  return ({ session, token, signal, holdOpen }: Exporting): Response | null => {
    const leave = enter(session.person.id)
    if (leave === null) return null
    const close = holdOpen()
    const isStillAllowed = async () => !isStopping() && (await findSession(dependencies, token)) !== null
    const stream = textStream(writeOwnData(dependencies, session, isStillAllowed), {
      clock,
      signal,
      longestMs: EXPORT_LONGEST_MS,
      onEnd: (error) => {
        leave()
        close()
        if (error !== null) log.warn({ err: error }, "an export of a person's data broke off")
      },
    })
    return new Response(stream, {
      headers: {
        'Content-Type': 'application/json',
        'Content-Disposition': `attachment; filename="own-data-${utcDay(clock.now())}.json"`,
        'Cache-Control': 'no-store',
        'X-Content-Type-Options': 'nosniff',
      },
    })
  }
}

export type OwnExporter = ReturnType<typeof createOwnExporter>

/** GET /account/export, of the management interface. */
export function showOwnData(dependencies: OwnDataDependencies, answer: OwnExporter): Handle<SessionPrincipal> {
  return async (call): Promise<Answer> => {
    const token = cookieOf(call.request.headers.get('Cookie'), dependencies.cookies.session)
    const session = await findSession(dependencies, token)
    if (session === null) return SESSION_ENDED
    if (!isRecent(session, dependencies.clock.now())) return SIGN_IN_AGAIN
    return answer({ session, token, signal: call.request.signal, holdOpen: call.holdOpen }) ?? TOO_MANY
  }
}

/** GET /account/export, the page: a file. */
export function showOwnDataPage(dependencies: OwnDataDependencies, answer: OwnExporter): Handle<PublicPrincipal> {
  return dependencies.guards.own(async ({ session, values, signal, holdOpen }) => {
    if (!isRecent(session, dependencies.clock.now())) return signInAgainPage('This is everything about you')
    return answer({ session, token: values.session, signal, holdOpen }) ?? tooManyExportsPage()
  })
}

/** Erases the person of a session who has typed the password, if they have one. */
async function eraseOneself(
  dependencies: OwnDataDependencies,
  session: FoundSession,
  typed: TypingBrowser & { readonly password: string },
): Promise<Result<ErasedPerson>> {
  const proven = await proveOneself(dependencies, session, typed)
  if (!proven.ok) return proven
  const { id } = session.person
  const actor = { kind: 'user', id, address: null } as const
  const erased = await erasePerson(dependencies, { userId: id, provenHash: proven.value, actor })
  if (erased.ok) dependencies.onEnqueued()
  return erased
}

function clearedCookies({ cookies }: OwnDataDependencies): readonly string[] {
  return [clearSession(cookies), clearKnownBrowser(cookies)]
}

/** PUT /account/erasure, of the management interface. */
export function putErasure(dependencies: OwnDataDependencies): Prepare<SessionPrincipal> {
  return (call) => {
    const checked = validate(erasureRequest, call.body, 'validation_failed', undefined, 'validation_failed')
    if (!checked.ok) return checked
    return ok(() => eraseCaller(dependencies, call, checked.value.password ?? ''))
  }
}

async function eraseCaller(
  dependencies: OwnDataDependencies,
  { request, connection }: RouteRequest<SessionPrincipal>,
  password: string,
): Promise<Answer> {
  const { cookies, clientAddress } = dependencies
  const header = request.headers.get('Cookie')
  const session = await findSession(dependencies, cookieOf(header, cookies.session))
  if (session === null) return SESSION_ENDED
  const address = addressGroup(clientAddress(connection.address, request.headers.get('X-Forwarded-For')))
  const typed = { password, known: cookieOf(header, cookies.known), address }
  const erased = await eraseOneself(dependencies, session, typed)
  if (!erased.ok) return erased.refusal
  const headers = new Headers()
  for (const cookie of clearedCookies(dependencies)) headers.append('Set-Cookie', cookie)
  return new Response(null, { status: 204, headers })
}

/** GET /account/erase. */
export function showErase(dependencies: OwnDataDependencies): Handle<PublicPrincipal> {
  return dependencies.guards.own((visit) => formOf(dependencies, visit))
}

async function formOf({ database }: OwnDataDependencies, { form, session }: SignedVisit, problem?: string) {
  const hasPassword = (await findPasswordHash(database, session.person.id)) !== null
  return erasePage({ form, hasPassword, ...(problem === undefined ? {} : { problem }) })
}

/** POST /account/erase. */
export function postErase(dependencies: OwnDataDependencies): Handle<PublicPrincipal> {
  return dependencies.guards.ownForm(async (visit) => {
    if (visit.field('sure') !== 'yes') return formOf(dependencies, visit, 'Nothing was erased. Tick the box to erase.')
    const { session, values, address } = visit
    const typed = { password: visit.field('password'), known: values.known, address }
    const erased = await eraseOneself(dependencies, session, typed)
    if (erased.ok) return erasedPage(clearedCookies(dependencies))
    const { code, message, retryAfterSeconds = 1 } = erased.refusal
    if (code === 'rate_limit_exceeded') return tooOftenPage(retryAfterSeconds)
    if (code === 'insufficient_scope') return signInAgainPage('This erases your account')
    return formOf(dependencies, visit, message)
  })
}
