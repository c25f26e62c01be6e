import { NO_ORGANIZATION } from '../../http/principal.ts'
import { countChange } from '../../identity/audit/budget.ts'
import type { Database, Participant } from '../../infra/postgres/database.ts'
import { joinAll } from '../../infra/postgres/joinAll.ts'
import type { DataKeys } from '../../lib/dataKeys.ts'
import { refusal } from '../../lib/errors.ts'
import { type RandomBytes, uuidV7 } from '../../lib/ids.ts'
import { ok, type Result, refused } from '../../lib/result.ts'
import { seal } from '../../lib/seal.ts'
import { Secret } from '../../lib/secret.ts'
import type { Clock } from '../../lib/time.ts'
import { type EventType, newSecret } from '../events/event.ts'
import { ENDPOINTS_MOST, isSameUrl, SAME_URL_MOST, type WebhookEndpoint } from './endpoint.ts'
import { insertEndpoint, lockUrls } from './store.ts'

export interface CreateDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  readonly dataKeys: DataKeys
}

export interface NewEndpoint {
  readonly organizationId: string
  /** Checked by `guard.ts` already. */
  readonly url: string
  readonly eventTypes: readonly EventType[]
  /** The attempt whose kept answer shows the secret. */
  readonly attempt: string
  /** Keeps the answer, in the transaction of the endpoint. */
  readonly keep: (endpoint: WebhookEndpoint, secret: Secret) => Promise<readonly Participant[]>
}

/**
 * Makes an endpoint and its secret, which nobody sees again but in the kept answer. Refuses the 51st, the third with one URL, and
 * any of an organization that is deleted. Throws `Refused` beyond the organization's budget of changes (K7), and where another
 * process has taken the Idempotency-Key over.
 */
export async function createEndpoint(
  { database, clock, random, dataKeys }: CreateDependencies,
  { organizationId, url, eventTypes, attempt, keep }: NewEndpoint,
): Promise<Result<{ endpoint: WebhookEndpoint; secret: Secret }>> {
  const createdAtMs = clock.now()
  const id = uuidV7(createdAtMs, random)
  const endpoint = { id, organizationId, url, eventTypes, enabled: true, createdAtMs }
  const secret = new Secret(newSecret(random))
  const { number, key, done } = dataKeys.take()
  try {
    const sealed = { bytes: seal(key, secretOf(id), Buffer.from(secret.reveal()), random), dataKey: number }
    const refusing = await database.transaction(async (tx) => {
      const urls = await lockUrls(tx, organizationId)
      if (urls === null) return NO_ORGANIZATION
      if (urls.length >= ENDPOINTS_MOST) return TOO_MANY
      if (urls.filter((each) => isSameUrl(each, url)).length >= SAME_URL_MOST) return TOO_MANY_OF_URL
      await countChange(tx, organizationId, clock.now())
      await insertEndpoint(tx, endpoint, sealed, attempt)
      await joinAll(tx, await keep(endpoint, secret))
      return null
    }, organizationId)
    return refusing === null ? ok({ endpoint, secret }) : refused(refusing)
  } finally {
    done()
  }
}

/** Returns the name under which an endpoint's secret is sealed. */
export function secretOf(endpointId: string) {
  return { kind: 'tollgate webhook secret', name: endpointId } as const
}

const TOO_MANY = refusal(
  'validation_failed',
  `This organization has ${ENDPOINTS_MOST} webhook endpoints, the most that one may have; delete one first.`,
)

const TOO_MANY_OF_URL = refusal(
  'validation_failed',
  `This organization has ${SAME_URL_MOST} webhook endpoints with this 'url', the most that one URL may have: delete one first.`,
  { param: 'url' },
)
