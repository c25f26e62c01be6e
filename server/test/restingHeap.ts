/** Tells how much of a process's heap is alive: load it into the process with `--preload`, then send it SIGUSR2. */

import { heapStats } from 'bun:jsc'
import { writeFileSync } from 'node:fs'

/** The variable with the path of the file that is written: a number of bytes. */
export const HEAP_FILE = 'TOLLGATE_TEST_HEAP'

const file = process.env[HEAP_FILE]
if (file !== undefined) {
  process.on('SIGUSR2', () => {
    Bun.gc(true)
    writeFileSync(file, String(heapStats().heapSize))
  })
}
