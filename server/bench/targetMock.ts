import { join } from 'node:path'
import { freePort, type Processes } from './processes.ts'
import { type Target, waitUntilServing } from './target.ts'

const MOCK = join(import.meta.dir, 'mock.ts')

/** Starts the mock upstream; as a target it is the bottom line: what is measured without any gateway. */
export async function startMock(processes: Processes, folder: string): Promise<Target> {
  const port = freePort()
  const logFile = join(folder, 'mock.log')
  const child = await processes.start([process.execPath, MOCK, '--port', String(port)], { logFile })
  const target: Target = {
    name: 'mock',
    port,
    path: '/v1/chat/completions',
    headers: {},
    authorizations: [],
    modelName: (mockModel) => mockModel,
    gatewayPids: () => [child.pid],
    databasePids: () => [],
  }
  await waitUntilServing(target, 'mock-1x0', 10_000)
  return target
}
