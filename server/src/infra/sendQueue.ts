/** A bound on the bytes that the kernel keeps for clients that do not read. */

import { FFIType } from 'bun:ffi'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { openCLibrary } from './cLibrary.ts'

/**
 * Unsent bytes that a connection may have in the kernel. Without a bound the kernel takes up to 4 MB of an answer that nobody
 * reads. Bytes that are under way to a client do not count, so a fast one gets as much as its network carries.
 */
const UNSENT_MOST_BYTES = 64 * 1024

const IPPROTO_TCP = 6
/** The option of `man 7 tcp` that bounds unsent bytes. The connections of a listening socket inherit it. */
const TCP_NOTSENT_LOWAT = 25
/** The state of a listening socket in /proc/net/tcp. */
const LISTENING = '0A'
const TABLES = ['/proc/self/net/tcp', '/proc/self/net/tcp6']
const DESCRIPTORS = '/proc/self/fd'

/**
 * Bounds the unsent bytes that the kernel keeps for each connection to a port on which this process listens. Call it before there are
 * connections. Elsewhere than on Linux the kernel's own bounds hold.
 *
 * @throws on Linux, where the system does not let us.
 */
export function boundSendQueues(port: number): void {
  if (process.platform !== 'linux') return
  const { setsockopt } = openCLibrary({
    setsockopt: { args: [FFIType.i32, FFIType.i32, FFIType.i32, FFIType.ptr, FFIType.u32], returns: FFIType.i32 },
  }).symbols
  const bytes = new Int32Array([UNSENT_MOST_BYTES])
  const listening = listeningSockets(port)
  const isBound = (socket: number) => setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, bytes, bytes.byteLength) === 0
  if (listening.length === 0 || !listening.every(isBound)) {
    throw new Error(`what the kernel keeps of answers at port ${port} could not be bounded`)
  }
}

/** The descriptors of this process's listening sockets on a port. */
function listeningSockets(port: number): number[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const inodes = new Set<string>()
  for (const table of TABLES) {
    for (const row of readRows(table)) {
      const [, local, , state, , , , , , inode] = row.trim().split(/\s+/)
      if (state === LISTENING && local?.endsWith(suffix) && inode !== undefined) inodes.add(`socket:[${inode}]`)
    }
  }
  return readdirSync(DESCRIPTORS)
    .filter((descriptor) => inodes.has(targetOf(descriptor)))
    .map(Number)
}

/** The rows of a table behind its heading; none where the kernel has no such table. */
function readRows(table: string): string[] {
  try {
    return readFileSync(table, 'utf8').trimEnd().split('\n').slice(1)
  } catch {
    return []
  }
}

/** Returns the file or socket of a descriptor; empty for one that was closed meanwhile, such as that of the listing itself. */
function targetOf(descriptor: string): string {
  try {
    return readlinkSync(`${DESCRIPTORS}/${descriptor}`)
  } catch {
    return ''
  }
}
