import { mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * Has a program of Bun load a file first: `environment` is for that program. The file is named by a link, since `BUN_OPTIONS` takes
 * no path with a blank, and that of the checkout may have one.
 */
export async function preload(path: string) {
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-test-'))
  const link = join(folder, 'preload.ts')
  await symlink(path, link)
  return {
    environment: { BUN_OPTIONS: `--preload ${link}` },
    remove: () => rm(folder, { recursive: true }),
  }
}
