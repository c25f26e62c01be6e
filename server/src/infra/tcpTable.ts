import { readFileSync } from 'node:fs'

const TABLES = ['/proc/self/net/tcp', '/proc/self/net/tcp6']

/** A TCP socket as the kernel lists it (`man 5 proc`). */
export interface TcpSocket {
  /** The link of its descriptor has this number. */
  readonly inode: string
  readonly isListening: boolean
  /** Bytes that were sent and that the other side's system has not taken. */
  readonly unsentBytes: number
  /** Bytes that have come and were not read. */
  readonly unreadBytes: number
}

/** The code of a listening socket's state. */
const LISTENING = '0A'

/** Lists the sockets of this machine's port, of all processes. None elsewhere than on Linux. */
export function tcpSocketsAt(port: number): TcpSocket[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  return TABLES.flatMap(readRows)
    .map((row) => row.trim().split(/\s+/))
    .filter(([, local]) => local?.endsWith(suffix))
    .map(([, , , state, queues, , , , , inode]) => ({
      inode: inode ?? '',
      isListening: state === LISTENING,
      // Two numbers: bytes to be sent, and bytes to be read.
      unsentBytes: Number.parseInt(queues ?? '', 16),
      unreadBytes: Number.parseInt(queues?.split(':')[1] ?? '', 16),
    }))
}

/** The rows of a table behind its heading; none where the kernel has no such table. */
function readRows(table: string): string[] {
  try {
    return readFileSync(table, 'utf8').trimEnd().split('\n').slice(1)
  } catch {
    return []
  }
}
