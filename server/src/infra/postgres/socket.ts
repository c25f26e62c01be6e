/**
 * The socket of the embedded server, which is the only way to it. Its folder is the database's OS user's own, mode 0700, so that
 * no other user can put a socket there and pose as the server while it is down.
 */

import { createHash } from 'node:crypto'
import { chown, lstat, mkdir, realpath, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { CLUSTER_DATABASE, type Cluster } from './cluster.ts'

/** PostgreSQL's own. It is a part of the socket's name and nothing else: two servers never share a folder. */
export const SOCKET_PORT = 5_432

/** The name of the socket in its folder. */
export const SOCKET_NAME = `.s.PGSQL.${SOCKET_PORT}`

/** Bytes of the path of a socket: 107 on Linux, 103 on macOS. */
const SOCKET_PATH_MOST = 103

/** Needs no quotes in PostgreSQL's list of folders. */
const PLAIN_PATH = /^[\w./-]+$/

/** Where the folders of sockets are whose cluster has too long a path. The same for all processes, whatever their environment. */
const SHORT_PARENT = '/tmp'

/** Where a server takes connections. */
export interface Listening {
  readonly port: number
  /** Null: a server from before there was a socket, which runs on. It listens on the loopback. */
  readonly socketFolder: string | null
}

/** Returns the URL of the server for a role, with its password: a secret. Neither is percent-encoded. */
export function urlOf({ port, socketFolder }: Listening, role: string, password: string): string {
  const host = socketFolder === null ? '' : `?host=${encodeURIComponent(socketFolder)}`
  return `postgres://${role}:${password}@127.0.0.1:${port}/${CLUSTER_DATABASE}${host}`
}

/**
 * Returns the folder for the socket: the cluster's own, which is 0700 already, or where its path is too long for a socket a short
 * one, which is made.
 *
 * @throws when somebody else has the short one, with advice.
 */
export async function makeSocketFolder(cluster: Cluster): Promise<string> {
  const folder = await realpath(cluster.folder)
  if (isFit(folder)) return folder
  const short = shortFolderOf(folder)
  const uid = cluster.user?.uid ?? process.getuid?.() ?? 0
  await mkdir(short, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  const found = await lstat(short)
  const isOurs = found.uid === uid || found.uid === process.getuid?.()
  if (!found.isDirectory() || !isOurs || (found.mode & 0o077) !== 0) {
    throw new Error(
      `${short}, where the socket of the database in ${folder} belongs, is somebody else's. Remove it, or give a --data-dir with a shorter path.`,
    )
  }
  if (cluster.user !== null) await chown(short, cluster.user.uid, cluster.user.gid)
  return short
}

/** Removes the short folder of a server that was stopped, if there is one and no other server uses it already. */
export async function removeSocketFolder(cluster: Cluster): Promise<void> {
  const folder = await realpath(cluster.folder)
  if (!isFit(folder)) await rmdir(shortFolderOf(folder)).catch(() => {})
}

function isFit(folder: string): boolean {
  return PLAIN_PATH.test(folder) && Buffer.byteLength(join(folder, SOCKET_NAME)) <= SOCKET_PATH_MOST
}

function shortFolderOf(folder: string): string {
  return join(SHORT_PARENT, `tollgate-${createHash('sha256').update(folder).digest('hex').slice(0, 16)}`)
}
