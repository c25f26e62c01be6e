import { z } from 'zod'
import { cookieOf } from '../../../http/cookie.ts'
import { jsonAnswer } from '../../../http/jsonAnswer.ts'
import { BY_CREATION, type CreationPlace, showList } from '../../../http/list.ts'
import type { Prepare } from '../../../http/onceForKey.ts'
import type { Handle } from '../../../http/pipeline.ts'
import type { SessionPrincipal } from '../../../http/principal.ts'
import { validate } from '../../../http/validate.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import type { ClientAddress } from '../../../lib/clientAddress.ts'
import { refusal } from '../../../lib/errors.ts'
import type { RandomBytes } from '../../../lib/ids.ts'
import { LIST_SHAPE } from '../../../lib/listPage.ts'
import { ok } from '../../../lib/result.ts'
import { toTimestamp } from '../../../lib/time.ts'
import { actorOf } from '../../audit/actor.ts'
import { csrfTokenOf } from '../secrets/token.ts'
import { findSession, type SessionDependencies } from './authenticate.ts'
import { endChosenSession, listSessions, switchOrganization } from './own.ts'
import { type FoundSession, type ListedSession, SESSION_ENDED } from './session.ts'

export interface SessionHttpDependencies extends SessionDependencies {
  readonly database: Database
  readonly random: RandomBytes
  readonly clientAddress: ClientAddress
  /** The name of the cookie. */
  readonly cookie: string
}

const role = z.enum(['owner', 'admin', 'member'])

export const currentSession = z
  .object({
    id: z.string().meta({ format: 'uuid' }),
    user: z.object({
      id: z.string().meta({ format: 'uuid' }),
      name: z.string(),
      email: z.string(),
      operator: z.boolean().meta({ description: 'Whether the person may do what the operator does.' }),
    }),
    organization: z.object({ id: z.string().meta({ format: 'uuid' }), name: z.string() }),
    member_id: z.string().meta({ format: 'uuid' }),
    role,
    csrf_token: z.string().meta({ description: 'To be sent as `X-CSRF-Token` with each change.' }),
    expires_at: z.iso.datetime(),
  })
  .meta({ id: 'CurrentSession' })

export const sessionChange = z
  .strictObject({ organization_id: z.uuid().meta({ description: 'Of which the person is a member.' }) })
  .meta({ id: 'SessionChange' })

const sessionEntry = z
  .object({
    id: z.string().meta({ format: 'uuid' }),
    current: z.boolean(),
    created_at: z.iso.datetime(),
    expires_at: z.iso.datetime(),
    address: z.string().nullable(),
    user_agent: z.string().nullable(),
  })
  .meta({ id: 'Session' })

export const sessionPage = z
  .object({ data: z.array(sessionEntry), next_cursor: z.string().nullable() })
  .meta({ id: 'SessionPage' })

export const sessionsQuery = z.object(LIST_SHAPE)

const NO_SESSION = refusal('not_found', 'You have no session of this id; GET /manage/v1/sessions lists them.')
const NOT_A_MEMBER = refusal('not_found', 'You are not a member of an organization with this id.')

/** GET /session, of the management interface. */
export function showSession(dependencies: SessionHttpDependencies): Handle<SessionPrincipal> {
  return (call) => describeSession(dependencies, call.request)
}

async function describeSession(dependencies: SessionHttpDependencies, request: Request) {
  const token = cookieOf(request.headers.get('Cookie'), dependencies.cookie)
  const found = await findSession(dependencies, token)
  if (token === null || found === null || found.membership === null) return SESSION_ENDED
  return jsonAnswer(toWire(found, found.membership, token))
}

function toWire(
  { id, person, expiresAtMs }: FoundSession,
  { memberId, organizationId, organizationName, role }: NonNullable<FoundSession['membership']>,
  token: string,
): z.infer<typeof currentSession> {
  return {
    id,
    user: { id: person.id, name: person.name, email: person.email, operator: person.isOperator },
    organization: { id: organizationId, name: organizationName },
    member_id: memberId,
    role,
    csrf_token: csrfTokenOf(token),
    expires_at: toTimestamp(expiresAtMs),
  }
}

/** PATCH /session, of the management interface: has the session act for another organization of the person. */
export function patchSession(dependencies: SessionHttpDependencies): Prepare<SessionPrincipal> {
  return (call) => {
    const checked = validate(sessionChange, call.body, 'validation_failed', undefined, 'validation_failed')
    if (!checked.ok) return checked
    return ok(async () => {
      const { sessionId: id, userId } = call.principal
      const isDone = await switchOrganization(dependencies, { id, userId }, checked.value.organization_id)
      return isDone ? describeSession(dependencies, call.request) : NOT_A_MEMBER
    })
  }
}

/** GET /sessions, of the management interface: those of the person alone. */
export function showSessions(dependencies: SessionHttpDependencies): Handle<SessionPrincipal> {
  return showList<ListedSession, CreationPlace, z.infer<typeof sessionEntry>, SessionPrincipal>({
    name: 'sessions',
    query: sessionsQuery,
    place: BY_CREATION,
    find: ({ principal }, behind, limit) => listSessions(dependencies, principal.userId, behind, limit),
    toWire: (entry, { principal }) => entryToWire(entry, principal.sessionId),
  })
}

function entryToWire(entry: ListedSession, currentId: string): z.infer<typeof sessionEntry> {
  return {
    id: entry.id,
    current: entry.id === currentId,
    created_at: toTimestamp(entry.createdAtMs),
    expires_at: toTimestamp(entry.expiresAtMs),
    address: entry.address,
    user_agent: entry.userAgent || null,
  }
}

/** DELETE /sessions/{id}, of the management interface. */
export function deleteOwnSession(dependencies: SessionHttpDependencies): Prepare<SessionPrincipal> {
  return (call) => {
    const [id = ''] = call.parameters
    const { address } = actorOf(dependencies.clientAddress, call)
    const owner = { userId: call.principal.userId, address }
    return ok(async () =>
      (await endChosenSession(dependencies, owner, id)) ? new Response(null, { status: 204 }) : NO_SESSION,
    )
  }
}
