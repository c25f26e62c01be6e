import { eraseNotices } from '../../billing/notices/erase.ts'
import { forgetAnswersOf } from '../../http/idempotency/store.ts'
import { endDeviceLoginsOf } from '../../identity/accounts/device/end.ts'
import { listMemberIds } from '../../identity/accounts/members/list.ts'
import { eraseNamesInChanges } from '../../identity/audit/erase.ts'
import { listKeyIds } from '../../identity/keys/list.ts'
import { findAnyOrganizationById } from '../../identity/organizations/find.ts'
import type { Database } from '../../infra/postgres/database.ts'
import {
  endInstancesOf,
  eraseInstancesOf,
  lockInstancesOf,
  prepareInstancesEnd,
} from '../../instances/ending/endAll.ts'
import { deleteOrganizationJobs } from '../../jobs/deleteJobs.ts'
import { SWEEP_ROWS } from '../../lib/periodicTask.ts'
import type { Clock } from '../../lib/time.ts'
import { eraseOperationsOf } from '../../operations/erase.ts'
import { closeLateCheckouts, erasePaymentLinks } from '../../payments/closing/close.ts'
import { cancelVideosOf, eraseVideosOf } from '../../videos/endAll.ts'
import { eraseWebhookLog } from '../../webhooks/log/erase.ts'
import { ERASURE } from './erasure.ts'

export interface ErasureDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly lowBalanceMicrocents: bigint
}

/**
 * Erases what a deleted organization has left that names people or is theirs: kept answers, the log of webhooks, names and
 * addresses in the audit log, links of payments, notices, mails, files of videos, names of instances. Ends what was accepted just
 * while it was deleted. Doing it twice does no harm. `goOn` is called before each batch of rows, and throws to break off.
 */
export async function eraseOrganization(
  dependencies: ErasureDependencies,
  organizationId: string,
  goOn: () => void,
): Promise<void> {
  const { database, clock } = dependencies
  const found = await findAnyOrganizationById(database, organizationId)
  if (found === undefined || found.deletedAtMs === null) return
  await prepareInstancesEnd(database, organizationId, clock.now())
  await database.transaction(async (tx) => {
    // A cancelled video gives its hold back, which locks the account.
    await lockInstancesOf(tx, organizationId)
    await cancelVideosOf(tx, organizationId, clock.now())
    await endInstancesOf(tx, dependencies, organizationId, clock.now())
  })
  await eraseInstancesOf(database, organizationId)
  await eraseOperationsOf(database, organizationId)
  await eraseVideosOf(database, organizationId, clock.now())
  await closeLateCheckouts(database, organizationId, clock.now())
  await erasePaymentLinks(database, organizationId)
  await deleteOrganizationJobs(database, organizationId, [ERASURE.name])
  await endDeviceLoginsOf(database, organizationId)
  await eraseNotices(database, organizationId)
  await forgetAnswers(database, organizationId, goOn)
  await eraseWebhookLog(database, organizationId, goOn)
  await eraseAuditLog(database, organizationId, goOn)
}

/** Forgets the kept answers to requests of the organization's keys and members. */
async function forgetAnswers(database: Database, organizationId: string, goOn: () => void): Promise<void> {
  for (const list of [listKeyIds, listMemberIds]) {
    let afterId: string | null = null
    do {
      const ids: string[] = await list(database, organizationId, afterId, SWEEP_ROWS)
      let forgotten = SWEEP_ROWS
      while (forgotten === SWEEP_ROWS) {
        goOn()
        forgotten = await forgetAnswersOf(database, ids, SWEEP_ROWS)
      }
      afterId = ids.length < SWEEP_ROWS ? null : (ids.at(-1) ?? null)
    } while (afterId !== null)
  }
}

async function eraseAuditLog(database: Database, organizationId: string, goOn: () => void): Promise<void> {
  let beforeId: string | null = null
  do {
    goOn()
    beforeId = await eraseNamesInChanges(database, organizationId, beforeId, SWEEP_ROWS)
  } while (beforeId !== null)
}
