import { readdir, readFile } from 'node:fs/promises'
import { systemClock } from '../../src/infra/clock.ts'
import { sleep } from '../../src/lib/time.ts'

const POLL_MS = 100

/**
 * Ends every process that names `folder` in its command line or environment, after it had `graceMs` to end by itself.
 * This finds also those that left their process group, as the embedded database does. Returns their command lines. Finds
 * nothing where there is no /proc.
 */
export async function endLeftovers(folder: string, graceMs: number): Promise<string[]> {
  const giveUpAtMs = systemClock.monotonicMs() + graceMs
  let found = await processesNaming(folder)
  while (found.size > 0 && systemClock.monotonicMs() < giveUpAtMs) {
    await sleep(systemClock, POLL_MS)
    found = await processesNaming(folder)
  }
  for (const pid of found.keys()) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It ended just now.
    }
  }
  return [...found.values()]
}

async function processesNaming(folder: string): Promise<Map<number, string>> {
  const found = new Map<number, string>()
  for (const name of await readdir('/proc').catch(() => [])) {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) continue
    const [command, environment] = await Promise.all([read(`/proc/${name}/cmdline`), read(`/proc/${name}/environ`)])
    if (names(command, folder) || names(environment, folder)) found.set(Number(name), command.replaceAll('\0', ' '))
  }
  return found
}

/**
 * Returns whether a text has the path of the folder, or of something in it: not that of a folder whose name only
 * begins alike.
 */
function names(text: string, folder: string): boolean {
  for (let at = text.indexOf(folder); at >= 0; at = text.indexOf(folder, at + 1)) {
    if (!/[\w.-]/.test(text[at + folder.length] ?? '')) return true
  }
  return false
}

/** Empty for a process that has ended, or that is somebody else's. */
function read(path: string): Promise<string> {
  return readFile(path, 'latin1').catch(() => '')
}
