/** The shares of an app in things of which all of a host has a fixed number: open files. */

import { readFile } from 'node:fs/promises'
import type { ProcessDriverSettings } from '../../../catalog/offering.ts'

/** Open files of a process of an app: no more, and so many that ordinary programs work, even where all of them then exceed the host's. */
export const FILES_MOST = 4_096
export const FILES_LEAST = 1_024

/** All apps together get this part of the host's, so that the gateway and its database have the other one. */
const APPS_PART = 1 / 2

/** A number that no host has. A file of the kernel that is not there, or says nothing, bounds nothing. */
const UNBOUNDED = Number.POSITIVE_INFINITY

type Machines = Pick<ProcessDriverSettings, 'machinesMost' | 'tasksMost'>

/** The things that a host has for all of its programs together. */
export interface HostTotals {
  /** Open files. */
  readonly files: number
}

/** Reads them from the kernel. */
export async function readHostTotals(): Promise<HostTotals> {
  const [files = UNBOUNDED] = await numbersOf('/proc/sys/fs/file-max')
  return { files }
}

async function numbersOf(path: string): Promise<number[]> {
  const text = await readFile(path, 'utf8').catch(() => '')
  return text.split(/\s+/).filter(Boolean).map(Number)
}

/** Returns the most files that each process of an app may open, between {@link FILES_LEAST} and {@link FILES_MOST}. */
export function filesOfProcess({ machinesMost, tasksMost }: Machines, { files }: HostTotals): number {
  const share = Math.floor((files * APPS_PART) / (machinesMost * tasksMost))
  return Math.min(FILES_MOST, Math.max(FILES_LEAST, share))
}

/** Returns what to tell an operator where all apps together may take too much of something; null where they can't. */
export function filesWarning(machines: Machines, totals: HostTotals): string | null {
  const taken = filesOfProcess(machines, totals) * machines.machinesMost * machines.tasksMost
  if (taken <= totals.files * APPS_PART) return null
  return (
    `instances: all apps together may open ${taken} files, and this host has ${totals.files} for all programs: ` +
    `raise fs.file-max to ${taken / APPS_PART} (sysctl), or lower 'tasks' or 'machines'`
  )
}
