/** Which tests are quick: those that start no process and no database, however far away from the test file. */

import type { Closures } from './closure.ts'

/** Code that starts a process or connects to a server. */
const STARTS =
  /from '(node:child_process|node:worker_threads|pg)'|\bBun\.(spawn|spawnSync|\$|SQL|listen|serve)\b|new Worker\(/

/** Chooses the files of which nothing that they bring in may start a process, a thread, a server or a database. */
export function chooseQuick(files: readonly string[], closures: Closures): string[] {
  const starts = new Map<string, boolean>()
  const mayStart = (path: string) => {
    const known = starts.get(path) ?? STARTS.test(closures.textOf(path))
    starts.set(path, known)
    return known
  }
  return files.filter((file) => ![...closures.of(file)].some(mayStart))
}
