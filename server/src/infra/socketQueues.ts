/**
 * Bounds on the bytes that the kernel keeps for a connection: of answers that its client does not read, and of requests that are
 * not read yet.
 */

import { FFIType } from 'bun:ffi'
import { readdirSync, readlinkSync } from 'node:fs'
import { openCLibrary } from './cLibrary.ts'
import { tcpSocketsAt } from './tcpTable.ts'

/**
 * Unsent bytes that a connection may have in the kernel. Without a bound the kernel takes up to 4 MB of an answer that nobody
 * reads. Bytes that are under way to a client do not count, so a fast one gets as much as its network carries.
 */
const UNSENT_MOST_BYTES = 64 * 1024

/**
 * Memory for bytes that have come and are not read yet, of which the kernel makes twice as much. Without a bound there are up to 6 MB, and
 * all of them are read in one go: a million chunks of one byte hold everybody else up for 50 ms. A client far away gets about this
 * much through in a round trip: over 1 MB a second at 100 ms.
 */
const UNREAD_MOST_BYTES = 128 * 1024

const SOL_SOCKET = 1
const SO_RCVBUF = 8
const IPPROTO_TCP = 6
/** The option of `man 7 tcp` that bounds unsent bytes. The connections of a listening socket inherit both. */
const TCP_NOTSENT_LOWAT = 25
const DESCRIPTORS = '/proc/self/fd'

/**
 * Bounds the unsent and the unread bytes that the kernel keeps for each connection to a port on which this process listens. Call it before
 * there are connections. Returns false where the kernel's own bounds hold: elsewhere than on Linux, or where the system does not let us.
 */
export function boundSocketQueues(port: number): boolean {
  if (process.platform !== 'linux') return false
  const listening = listeningSockets(port)
  return listening.length > 0 && setBounds(listening)
}

function setBounds(sockets: readonly number[]): boolean {
  try {
    const { setsockopt } = openCLibrary({
      setsockopt: { args: [FFIType.i32, FFIType.i32, FFIType.i32, FFIType.ptr, FFIType.u32], returns: FFIType.i32 },
    }).symbols
    const set = (socket: number, level: number, option: number, bytes: number) =>
      setsockopt(socket, level, option, new Int32Array([bytes]), Int32Array.BYTES_PER_ELEMENT) === 0
    return sockets.every(
      (socket) =>
        set(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_MOST_BYTES) &&
        set(socket, SOL_SOCKET, SO_RCVBUF, UNREAD_MOST_BYTES),
    )
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
