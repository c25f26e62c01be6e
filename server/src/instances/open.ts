import type { Noter } from '../identity/audit/note.ts'
import type { Queryable } from '../infra/postgres/database.ts'
import { inWorkGauge } from '../jobs/gauge.ts'
import { MINUTE_MS } from '../lib/time.ts'
import { type AccessDependencies, openAccess } from './access/openAccess.ts'
import { hearOfChanges } from './hear.ts'
import type { InstanceDependencies } from './job/dependencies.ts'
import { claimOwnPlace } from './place.ts'
import { reconcileMachines } from './reconcile.ts'
import { instanceRoutes } from './routes.ts'
import { createInstanceRunner } from './run.ts'

/** The dependencies that only the port of apps has; null: this process does not open it. */
export type AppPort = Pick<AccessDependencies, 'host' | 'trustedProxies'>

/**
 * Opens the room of instances, and the port of their apps where they have one. Nothing is worked on before `onOpened`. `noter`
 * writes changes into the audit log.
 */
export async function openInstances(
  dependencies: InstanceDependencies & { readonly noter: Noter; readonly reads: Queryable },
  appPort: AppPort | null,
) {
  await claimOwnPlace(dependencies)
  const runner = createInstanceRunner(dependencies)
  const { access } = dependencies.settings
  const opened = access === null || appPort === null ? null : await openAccess({ ...dependencies, ...appPort, access })
  let stopHearing = async () => {}
  return {
    routes: instanceRoutes({ ...dependencies, wake: runner.wake }),
    periodicTasks: [
      {
        name: 'list of instances',
        everyMs: MINUTE_MS,
        async run(isStopping: () => boolean) {
          await claimOwnPlace(dependencies)
          await reconcileMachines(dependencies, isStopping)
        },
      },
      ...(opened === null ? [] : [opened.task]),
    ],
    metrics: [inWorkGauge(runner), ...(opened === null ? [] : [opened.task.gauge])],
    onOpened() {
      runner.start()
      stopHearing = hearOfChanges(dependencies, runner.wake)
    },
    async stop() {
      opened?.server.close()
      await stopHearing()
      await runner.close()
    },
  }
}
