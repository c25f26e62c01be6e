/**
 * A process that does one thing with instances until it kills itself at a step:
 * `bun instanceWorker.ts URL NOW STEP TASK ORGANIZATION ID KUBECONFIG`. The task is `create`, `work` or `delete`; NOW is the
 * instant, in milliseconds, at which its clock stands. With KUBECONFIG its machines are those of a cluster, and a step may be a
 * request that is answered (`clusterRequest.ts`), and before one (`before POST deployments`) it stops, until somebody has it go on;
 * without, rows.
 */

import { systemClock } from '../../src/infra/clock.ts'
import { openClient } from '../../src/infra/postgres/client.ts'
import { fetchByIdentity, type TlsFetch } from '../../src/infra/tlsFetch.ts'
import { createInstanceRunner } from '../../src/instances/run.ts'
import { TurnedClock } from '../clock.ts'
import { askForDeletion, askForInstance, instanceProcess } from '../instanceProcess.ts'
import { SILENCE } from '../silence.ts'
import { clusterRequest } from './clusterRequest.ts'
import { tabledMachines } from './tabledMachines.ts'

const [url = '', now = '', killStep = '', task = '', organizationId = '', id = '', kubeconfig = ''] =
  process.argv.slice(2)
const database = openClient(url, { maxConnections: 4, clock: systemClock })
const reached = (step: string) => {
  if (step === killStep) process.kill(process.pid, 'SIGKILL')
}
const driver = kubeconfig === '' ? tabledMachines(database) : await machinesOfCluster()
const means = instanceProcess({ database, clock: new TurnedClock(Number(now)), driver, slot: 77 }, { reached })
if (task === 'create') await askForInstance(means, organizationId)
else if (task === 'delete') await askForDeletion(means, { id, organizationId })
else await createInstanceRunner(means).run()
await database.close()

async function machinesOfCluster() {
  // Loaded here: its client is large.
  const { clusterDriver } = await import('../kubernetes/stage.ts')
  let hasStopped = false
  const fetch: TlsFetch = async (address, init, identity) => {
    const request = clusterRequest(init.method ?? 'GET', address)
    if (!hasStopped && killStep === `before ${request}`) {
      hasStopped = true
      process.kill(process.pid, 'SIGSTOP')
    }
    const answer = await fetchByIdentity(address, init, identity)
    reached(request)
    return answer
  }
  return clusterDriver(kubeconfig, {}, systemClock, SILENCE, fetch)
}
