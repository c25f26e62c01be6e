import type { Database, Rider } from '../../io/postgres/database.ts'
import { refusal } from '../../kernel/errors.ts'
import { type RandomBytes, uuidV7 } from '../../kernel/ids.ts'
import { ok, type Result, refused } from '../../kernel/result.ts'
import { seal } from '../../kernel/seal.ts'
import { Secret } from '../../kernel/secret.ts'
import type { Clock } from '../../kernel/time.ts'
import { type EventType, newSecret } from '../event.ts'
import { ENDPOINTS_MOST, type Endpoint } from './endpoint.ts'
import { countEndpoints, insertEndpoint } from './store.ts'

export interface CreateDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  readonly dataKey: Uint8Array
}

export interface NewEndpoint {
  readonly organizationId: string
  /** Checked by `guard.ts` already. */
  readonly url: string
  readonly eventTypes: readonly EventType[]
  /** Whose kept answer shows the secret. */
  readonly attempt: string
  /** Keeps the answer, in the transaction of the endpoint. */
  readonly keep: (endpoint: Endpoint, secret: Secret) => Promise<readonly Rider[]>
}

/** Makes an endpoint and its secret, which nobody sees again but in the kept answer. Refuses the 51st. */
export async function createEndpoint(
  { database, clock, random, dataKey }: CreateDependencies,
  { organizationId, url, eventTypes, attempt, keep }: NewEndpoint,
): Promise<Result<{ endpoint: Endpoint; secret: Secret }>> {
  const createdAtMs = clock.now()
  const id = uuidV7(createdAtMs, random)
  const endpoint = { id, organizationId, url, eventTypes, enabled: true, createdAtMs }
  const secret = new Secret(newSecret(random))
  const sealed = seal(dataKey, secretOf(id), Buffer.from(secret.reveal()), random)
  const isMade = await database.transaction(async (tx) => {
    if ((await countEndpoints(tx, organizationId)) >= ENDPOINTS_MOST) return false
    await insertEndpoint(tx, endpoint, sealed, attempt)
    for (const ride of await keep(endpoint, secret)) await ride(tx)
    return true
  })
  return isMade ? ok({ endpoint, secret }) : refused(TOO_MANY)
}

/** What an endpoint's secret is sealed as. */
export function secretOf(endpointId: string) {
  return { kind: 'tollgate webhook secret', name: endpointId } as const
}

const TOO_MANY = refusal(
  'validation_failed',
  `This organization has ${ENDPOINTS_MOST} webhook endpoints, the most that one may have; delete one first.`,
)
