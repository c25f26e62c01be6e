/** The system's table of processes, as `/proc` has it. */

import { readdir, readFile } from 'node:fs/promises'

/** A process, told apart from a later one with the same number. */
export interface KnownProcess {
  readonly pid: number
  /** When it started, in the system's own unit; of this start of the system alone. */
  readonly startTime: string
  /** The start of the system that it belongs to. */
  readonly boot: string
}

/** A process as it is now; null: there is none. */
export async function lookUpProcess(pid: number): Promise<(KnownProcess & { readonly group: number }) | null> {
  const [stat, boot] = await Promise.all([readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null), readBoot()])
  // The name stands in parentheses, and may have some itself.
  const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [group, startTime] = [fields?.[2], fields?.[19]]
  return group === undefined || startTime === undefined ? null : { pid, startTime, boot, group: Number(group) }
}

async function readBoot(): Promise<string> {
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '')).trim()
}

/** Kills a process with its process group, where it is still the one that is meant. */
export async function killKnown(known: KnownProcess): Promise<void> {
  const found = await lookUpProcess(known.pid)
  if (found === null || found.startTime !== known.startTime || found.boot !== known.boot) return
  kill(found.group > 1 ? -found.group : found.pid)
}

/**
 * Returns whether `status`, the text of `/proc/PID/status`, is of a running process of which any user id is `uid`. A process that has
 * ended and waits for its parent does not run. One whose first thread has ended while others go on does, though the system calls it a
 * zombie too.
 */
export function isRunningOf(uid: number, status: string): boolean {
  const ids = /^Uid:\s+(.*)$/m.exec(status)?.[1]?.split(/\s+/) ?? []
  const hasEnded = /^State:\s+[ZX]/m.test(status) && Number(/^Threads:\s+(\d+)$/m.exec(status)?.[1] ?? 0) <= 1
  return ids.includes(String(uid)) && !hasEnded
}

/** The running processes of a user ({@link isRunningOf}). */
export async function processesOf(uid: number): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const found: number[] = []
  for (const pid of pids) {
    const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
    if (isRunningOf(uid, status)) found.push(Number(pid))
  }
  return found
}

/** Kills every process of a user. */
export async function killProcessesOf(uid: number): Promise<void> {
  for (const pid of await processesOf(uid)) kill(pid)
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
}
