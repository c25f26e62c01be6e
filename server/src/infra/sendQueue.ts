/** A bound on the bytes that the kernel keeps for clients that do not read. */

import { FFIType } from 'bun:ffi'
import { readdirSync, readlinkSync } from 'node:fs'
import { openCLibrary } from './cLibrary.ts'
import { tcpSocketsAt } from './tcpTable.ts'

/**
 * Unsent bytes that a connection may have in the kernel. Without a bound the kernel takes up to 4 MB of an answer that nobody
 * reads. Bytes that are under way to a client do not count, so a fast one gets as much as its network carries.
 */
const UNSENT_MOST_BYTES = 64 * 1024

const IPPROTO_TCP = 6
/** The option of `man 7 tcp` that bounds unsent bytes. The connections of a listening socket inherit it. */
const TCP_NOTSENT_LOWAT = 25
const DESCRIPTORS = '/proc/self/fd'

/**
 * Bounds the unsent bytes that the kernel keeps for each connection to a port on which this process listens. Call it before there are
 * connections. Returns false where the kernel's own bounds hold: elsewhere than on Linux, or where the system does not let us.
 */
export function boundSendQueues(port: number): boolean {
  if (process.platform !== 'linux') return false
  const listening = listeningSockets(port)
  return listening.length > 0 && setUnsentMost(listening)
}

function setUnsentMost(sockets: readonly number[]): boolean {
  try {
    const { setsockopt } = openCLibrary({
      setsockopt: { args: [FFIType.i32, FFIType.i32, FFIType.i32, FFIType.ptr, FFIType.u32], returns: FFIType.i32 },
    }).symbols
    const bytes = new Int32Array([UNSENT_MOST_BYTES])
    return sockets.every((socket) => setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, bytes, bytes.byteLength) === 0)
  } catch {
    return false
  }
}

/** The descriptors of this process's listening sockets on a port. */
function listeningSockets(port: number): number[] {
  const listening = tcpSocketsAt(port).filter(({ isListening }) => isListening)
  const links = new Set(listening.map(({ inode }) => `socket:[${inode}]`))
  return readdirSync(DESCRIPTORS)
    .filter((descriptor) => links.has(targetOf(descriptor)))
    .map(Number)
}

/** Returns the file or socket of a descriptor; empty for one that was closed meanwhile, such as that of the listing itself. */
function targetOf(descriptor: string): string {
  try {
    return readlinkSync(`${DESCRIPTORS}/${descriptor}`)
  } catch {
    return ''
  }
}
