import type { FixedSettings } from '../../catalog/settings.ts'
import type { Route } from '../../http/route.ts'
import type { JobHandler } from '../../jobs/handler.ts'
import { createClientAddress } from '../../lib/clientAddress.ts'
import { type Deletion, type DeletionDependencies, deleteOrganization } from './deleteOrganization.ts'
import { erasureHandler } from './erasureJob.ts'
import { deletionRoutes } from './routes.ts'

export interface DeletionOptions
  extends Omit<DeletionDependencies, 'paymentProvider' | 'lowBalanceMicrocents' | 'wakeJobs'> {
  readonly config: {
    readonly settings: { readonly fixed: Pick<FixedSettings, 'payments' | 'trustedProxies' | 'lowBalanceMicrocents'> }
  }
}

/** Returns how an organization is deleted for one of its owners, on a page. */
export function deletionBy(options: DeletionOptions, wakeJobs: DeletionDependencies['wakeJobs']) {
  const dependencies = deletionOf(options, wakeJobs)
  return (deletion: Deletion) => deleteOrganization(dependencies, deletion)
}

/** Returns all that a deletion of an organization needs. */
function deletionOf(
  { config, database, clock, random }: DeletionOptions,
  wakeJobs: DeletionDependencies['wakeJobs'],
): DeletionDependencies {
  const { payments, lowBalanceMicrocents } = config.settings.fixed
  const paymentProvider = payments?.provider.name ?? null
  return { database, clock, random, wakeJobs, paymentProvider, lowBalanceMicrocents }
}

/** Opens the deletion of organizations: its routes where people sign in, and the job that it leaves. */
export function openDeletion(
  options: DeletionOptions,
  { signsIn, wakeJobs }: { readonly signsIn: boolean } & Pick<DeletionDependencies, 'wakeJobs'>,
): { readonly routes: readonly Route[]; readonly jobHandlers: readonly JobHandler[] } {
  const { config, database, clock } = options
  const { trustedProxies, lowBalanceMicrocents } = config.settings.fixed
  const clientAddress = createClientAddress(trustedProxies)
  return {
    routes: signsIn ? deletionRoutes({ ...deletionOf(options, wakeJobs), clientAddress }) : [],
    jobHandlers: [erasureHandler({ database, clock, lowBalanceMicrocents })],
  }
}
