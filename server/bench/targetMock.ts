import { join } from 'node:path'
import { freePort, type Processes } from './processes.ts'
import { plainTarget, type Target } from './target.ts'

const MOCK = join(import.meta.dir, 'mock.ts')

/** Starts the mock provider; as a target it is the bottom line: what is measured without any gateway. */
export async function startMock(processes: Processes, folder: string): Promise<Target> {
  const port = freePort()
  const logFile = join(folder, 'mock.log')
  const child = await processes.start([process.execPath, MOCK, '--port', String(port)], { logFile })
  return plainTarget('mock', port, () => [child.pid])
}
