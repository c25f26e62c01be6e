import { join } from 'node:path'
import { freePort, processTree } from './processes.ts'
import { type BenchContext, plainTarget, type Target } from './target.ts'

const RELAY = join(import.meta.dir, 'relay.ts')

/** Starts the bare relay. It answers whole calls as streams too, so it is a target of streams alone. */
export async function startRelay({ processes, folder, mockPort }: BenchContext): Promise<Target> {
  const port = freePort()
  const logFile = join(folder, 'relay.log')
  const command = [process.execPath, RELAY, '--port', String(port), '--to', String(mockPort)]
  const child = await processes.start(command, { logFile })
  return plainTarget('relay', port, () => processTree(child.pid))
}
