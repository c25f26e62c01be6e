/** The shares of an app in things of which all of a host has a fixed number: open files, and memory of TCP connections. */

import { readFile } from 'node:fs/promises'
import type { ProcessDriverSettings } from '../../../catalog/offering.ts'

/** Open files of a process of an app: no more, and so many that ordinary programs work, even where all of them then exceed the host's. */
const FILES_MOST = 4_096
export const FILES_LEAST = 1_024

/** Memory of the TCP connections of an app, as a part of its memory, and the least that its port works with. */
const TCP_PART = 1 / 16
const TCP_BYTES_LEAST = 16 * 1024 * 1024

/** The kernel counts the memory of TCP in pages; no processor has smaller ones. */
const PAGE_BYTES = 4_096

/** All apps together get this part of the host's, so that the gateway and its database have the other one. */
const APPS_PART = 1 / 2

/** A number that no host has. A file of the kernel that is not there, or says nothing, bounds nothing. */
const UNBOUNDED = Number.POSITIVE_INFINITY

type Machines = Pick<ProcessDriverSettings, 'machinesMost' | 'tasksMost'>
type MachinesMemory = Pick<ProcessDriverSettings, 'machinesMost' | 'memoryBytes'>

/** The things that a host has for all of its programs together. */
export interface HostTotals {
  /** Open files. */
  readonly files: number
  /** Memory of TCP connections. Beyond it, the kernel refuses buffers to all of them. */
  readonly tcpBytes: number
}

/** Reads them from the kernel. */
export async function readHostTotals(): Promise<HostTotals> {
  const [files = UNBOUNDED] = await numbersOf('/proc/sys/fs/file-max')
  const [, , pages = UNBOUNDED] = await numbersOf('/proc/sys/net/ipv4/tcp_mem')
  return { files, tcpBytes: pages * PAGE_BYTES }
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

/** Returns the most memory of the TCP connections of an app, in bytes. */
export function tcpBytesOfApp({ machinesMost, memoryBytes }: MachinesMemory, { tcpBytes }: HostTotals): number {
  const share = Math.min(memoryBytes * TCP_PART, (tcpBytes * APPS_PART) / machinesMost)
  return Math.max(TCP_BYTES_LEAST, Math.floor(share))
}

/** Returns what to tell an operator where all apps together may take too much memory of TCP; null where they can't. */
export function tcpWarning(machines: MachinesMemory, totals: HostTotals): string | null {
  const taken = tcpBytesOfApp(machines, totals) * machines.machinesMost
  if (taken <= totals.tcpBytes * APPS_PART) return null
  return (
    `instances: connections of all apps together may take ${taken} bytes, and this host has ${totals.tcpBytes} for all of TCP: ` +
    `raise the last number of net.ipv4.tcp_mem to ${Math.ceil(taken / APPS_PART / PAGE_BYTES)} (sysctl), or lower 'machines'`
  )
}
