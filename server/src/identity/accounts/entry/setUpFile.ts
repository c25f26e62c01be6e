import { unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { writeSecretFile } from '../../../infra/folder.ts'

const FILE_NAME = 'set-up-link'

/** Writes the link to set up the first account to a file that only this user may read; returns its path. */
export async function writeSetUpFile(folder: string, url: string): Promise<string> {
  const file = join(folder, FILE_NAME)
  await writeSecretFile(file, `${url}\n`)
  return file
}

/**
 * Removes that file, once there is an account: its link works no more. Where there is none, or this process may not remove it, it does
 * nothing; the next start tries again.
 */
export async function removeSetUpFile(folder: string): Promise<void> {
  await unlink(join(folder, FILE_NAME)).catch(() => {})
}
