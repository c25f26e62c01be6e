import { endSubscriptionOf } from '../../billing/plans/setSubscription.ts'
import { forgetAnswer } from '../../http/idempotency/store.ts'
import { NO_ORGANIZATION } from '../../http/principal.ts'
import { endMembershipsOf } from '../../identity/accounts/endMemberships.ts'
import { lockMembersToEnd } from '../../identity/accounts/members/end.ts'
import type { Actor } from '../../identity/audit/entry.ts'
import { inTransaction, type Keep } from '../../identity/audit/inTransaction.ts'
import { recordAuditEntry } from '../../identity/audit/record.ts'
import { revokeKeysOfOrganization } from '../../identity/keys/revoke.ts'
import { findOrganizationById } from '../../identity/organizations/find.ts'
import { lockOrganization, markDeleted } from '../../identity/organizations/remove.ts'
import type { Database, Transaction } from '../../infra/postgres/database.ts'
import { endInstancesOf, lockInstancesOf, prepareInstancesEnd } from '../../instances/ending/endAll.ts'
import { deleteOrganizationJobs } from '../../jobs/deleteJobs.ts'
import { Refused, refusal } from '../../lib/errors.ts'
import type { RandomBytes } from '../../lib/ids.ts'
import type { Result } from '../../lib/result.ts'
import type { Clock } from '../../lib/time.ts'
import { closeAutoPay, closePayments } from '../../payments/closing/close.ts'
import type { PaymentProviderName } from '../../payments/provider/payment.ts'
import { cancelVideosOf } from '../../videos/endAll.ts'
import { removeEndpointsOf } from '../../webhooks/endpoints/remove.ts'
import { ERASURE, enqueueErasures } from './erasure.ts'

export interface DeletionDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  /** The payment provider of the settings; null: they name none. */
  readonly paymentProvider: PaymentProviderName | null
  /** Below it an organization is told of its balance, as a charge for an instance may have to. */
  readonly lowBalanceMicrocents: bigint
  /** Jobs were enqueued and committed. Returns at once. */
  readonly wakeJobs: () => void
}

export interface Deletion {
  readonly organizationId: string
  /** The name of the organization, as the person has typed it. */
  readonly typedName: string
  readonly actor: Actor
  /** The member that deletes it, an owner; null: an operator of the installation. */
  readonly ownerId: string | null
}

type Ended = 'members' | 'keys' | 'videos' | 'instances' | 'webhook_endpoints' | 'subscriptions'

/** An organization that is deleted, and how much of it ended with that. */
export interface DeletedOrganization {
  readonly organizationId: string
  readonly ended: Readonly<Record<Ended, number>>
}

const OTHER_NAME = refusal(
  'validation_failed',
  "The name is not this organization's. Type it exactly as it is shown: a deletion can't be undone.",
  { param: 'name' },
)

/**
 * Deletes an organization in one transaction: its keys are revoked in every process, its members removed, its invitations, device
 * logins and webhook endpoints deleted, its videos, instances and jobs ended, auto-pay switched off. Its checkouts and
 * subscriptions are due to be ended at the payment provider, and a job erases what names people. Ledger, charges and payments stay.
 *
 * Refused: `not_found` where there is none, or it is deleted already; `validation_failed` for another name, where a subscription could not
 * be cancelled, and where an operator would be left without an organization; `insufficient_scope` where the member is no owner now.
 */
export async function deleteOrganization(
  dependencies: DeletionDependencies,
  deletion: Deletion,
  keep: Keep<DeletedOrganization> = async () => [],
): Promise<Result<DeletedOrganization>> {
  const { database, clock, random, wakeJobs } = dependencies
  await prepareInstancesEnd(database, deletion.organizationId, clock.now())
  const deleted = await inTransaction(
    database,
    deletion.ownerId === null ? null : deletion.organizationId,
    async (tx) => {
      const nowMs = clock.now()
      await refuseOtherName(tx, deletion)
      const ended = await endAll(tx, deletion, dependencies, nowMs)
      const { organizationId, actor } = deletion
      await markDeleted(tx, organizationId, nowMs)
      await deleteOrganizationJobs(tx, organizationId, [ERASURE.name])
      await enqueueErasures(tx, organizationId, nowMs)
      await recordAuditEntry(tx, random, nowMs, {
        organizationId,
        // Addresses of people are erased with it.
        actor: { ...actor, address: null },
        action: 'organization.deleted',
        subjectId: organizationId,
        before: ended,
        after: null,
      })
      return { organizationId, ended }
    },
    keep,
  )
  if (deleted.ok) wakeJobs()
  return deleted
}

/** Throws the refusal before anything is locked. The organization can't get another name. */
async function refuseOtherName(tx: Transaction, { organizationId, typedName }: Deletion): Promise<void> {
  const found = await findOrganizationById(tx, organizationId)
  if (found === undefined) throw new Refused(NO_ORGANIZATION)
  if (typedName.normalize('NFC') !== found.name) throw new Refused(OTHER_NAME)
}

/**
 * Ends everything that the organization has. Locks are taken in the order in which all others take them: open
 * payments, instances, videos, the account, the organization, its people, its keys, its endpoints. Code that gives
 * the organization something locks the organization's row first.
 */
async function endAll(
  tx: Transaction,
  { organizationId, ownerId }: Deletion,
  { paymentProvider, lowBalanceMicrocents }: DeletionDependencies,
  nowMs: number,
): Promise<DeletedOrganization['ended']> {
  const subscriptions = await closePayments(tx, organizationId, paymentProvider, nowMs)
  // A cancelled video gives its hold back, which locks the account.
  await lockInstancesOf(tx, organizationId)
  const videos = await cancelVideosOf(tx, organizationId, nowMs)
  const instances = await endInstancesOf(tx, { lowBalanceMicrocents }, organizationId, nowMs)
  await closeAutoPay(tx, organizationId, nowMs)
  await lockOrganization(tx, organizationId)
  const members = await lockMembersToEnd(tx, organizationId, ownerId)
  const keys = await revokeKeysOfOrganization(tx, organizationId, nowMs)
  await endMembershipsOf(tx, organizationId, nowMs)
  await endSubscriptionOf(tx, organizationId, nowMs)
  const endpoints = await removeEndpointsOf(tx, forgetAnswer, organizationId)
  return { members, keys, videos, instances, webhook_endpoints: endpoints, subscriptions }
}
