import type { RouteRequest } from '../../http/pipeline.ts'
import type { SessionPrincipal } from '../../http/principal.ts'
import { actorOf } from '../../identity/audit/actor.ts'
import type { Actor } from '../../identity/audit/entry.ts'
import { findAnyOrganizationById, findOrganizationById } from '../../identity/organizations/find.ts'
import type { Organization } from '../../identity/organizations/organization.ts'
import type { Database, Queryable } from '../../infra/postgres/database.ts'
import type { QueueFigures } from '../../infra/workMetrics.ts'
import type { ClientAddress } from '../../lib/clientAddress.ts'
import { Refused, refusal } from '../../lib/errors.ts'
import type { RandomBytes } from '../../lib/ids.ts'
import { isUuid } from '../../lib/ids.ts'
import type { Log } from '../../lib/log.ts'
import type { Clock } from '../../lib/time.ts'
import type { LookedAtTarget } from '../../routing/gauges.ts'

/** All that the routes for operators need. */
export interface OperatorDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  readonly log: Log
  readonly clientAddress: ClientAddress
  /** Looks at each target that is offered. */
  readonly looks: () => Iterable<LookedAtTarget>
  /** Reads what waits in the database; null where that can't be told now. */
  readonly queues: () => Promise<QueueFigures | null>
  readonly isStopping: () => boolean
}

/** Returns who acts by an operator's request, for the audit log. */
export function operatorOf({ clientAddress }: OperatorDependencies, call: RouteRequest<SessionPrincipal>): Actor {
  return { ...actorOf(clientAddress, call), kind: 'operator' }
}

const NO_SUCH_ORGANIZATION = refusal(
  'not_found',
  'There is no such organization; GET /manage/v1/operator/organizations lists them.',
)

/** Returns the organization of an id, which may be any text. Throws the refusal where there is none, or it is deleted. */
export async function findOperatedOrganization(db: Queryable, id: string): Promise<Organization> {
  return orThrow(isUuid(id) ? await findOrganizationById(db, id) : undefined)
}

/** The same, deleted or not. */
export async function findAnyOperatedOrganization(db: Queryable, id: string): Promise<Organization> {
  return orThrow(isUuid(id) ? await findAnyOrganizationById(db, id) : undefined)
}

function orThrow(organization: Organization | undefined): Organization {
  if (organization === undefined) throw new Refused(NO_SUCH_ORGANIZATION)
  return organization
}
