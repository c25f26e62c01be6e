/** Runs of tests make thousands of databases' files: in memory that takes a tenth of the time that it takes on a disk. */

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Linux keeps files beneath it in memory. */
export const MEMORY_FOLDER = '/dev/shm'

/** A run of all tests needs a tenth of this. */
const FREE_BYTES_LEAST = 2_000_000_000

/**
 * Returns whether a run of tests may keep its files in a folder: it has room, may be written to, and its programs may
 * be started.
 */
export function mayHoldRun(folder: string, freeBytesLeast = FREE_BYTES_LEAST): boolean {
  let own: string | undefined
  try {
    const { bavail, bsize } = statfsSync(folder)
    if (bavail * bsize < freeBytesLeast) return false
    own = mkdtempSync(join(folder, 'tollgate-run-'))
    const program = join(own, 'program')
    writeFileSync(program, '#!/bin/sh\n', { mode: 0o700 })
    return spawnSync(program).status === 0
  } catch {
    return false
  } finally {
    if (own !== undefined) rmSync(own, { recursive: true, force: true })
  }
}
