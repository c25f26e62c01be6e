/**
 * Files that run together in one process: their imports are loaded and compiled once. They share no file and no
 * database. They do share the modules' own state, as they would in a server.
 */

import type { Closures } from './closure.ts'
import { chooseQuick } from './quick.ts'
import { type FileOptions, type FileRun, type Running, runFile, runProcess } from './runFile.ts'

/** Folders whose tests start processes and threads by their helpers only. */
const ROOMS =
  /^server\/(src\/(?:app|billing|catalog|commands|http|identity|inference|instances|jobs|operations|payments|processes|routing|videos|webhooks)|test\/acceptance)\//

/** Code of tests that starts a process or a thread. */
const STARTS = /from '(node:child_process|node:worker_threads)'|\bBun\.(spawn|spawnSync|\$)|new Worker\(/

/** Starts the database of the run where there is none: there is one. */
const DATABASE_OF_THE_RUN = 'server/test/postgres.ts'

/** A suite with seeds prints them; of several files nobody could tell whose they are. */
const PRINTS_SEEDS = 'seeds: '

const FILES_MOST = 8
/** A group may take so many times as long as a file. */
const LIMIT_TIMES = 2

/**
 * Groups files: those of one room that can run together, and quick ones wherever they are; at most eight. Each other one is alone. In the
 * order of the files.
 */
export function groupFiles(files: readonly string[], closures: Closures): string[][] {
  const quick = new Set(chooseQuick(files, closures))
  const groups: string[][] = []
  const open = new Map<string, string[]>()
  for (const file of files) {
    const room = quick.has(file) ? 'quick' : ROOMS.exec(file)?.[1]
    if (room === undefined || !mayShare(file, closures)) {
      groups.push([file])
      continue
    }
    const group = open.get(room)
    if (group !== undefined && group.length < FILES_MOST) group.push(file)
    else {
      const next = [file]
      open.set(room, next)
      groups.push(next)
    }
  }
  return groups
}

function mayShare(file: string, closures: Closures): boolean {
  if (closures.textOf(file).includes(PRINTS_SEEDS)) return false
  const ofTests = [...closures.of(file)].filter((path) => path === file || path.startsWith('server/test/'))
  return !ofTests.some((path) => path !== DATABASE_OF_THE_RUN && STARTS.test(closures.textOf(path)))
}

/**
 * Runs a group of files. Where something is wrong with the process that no test of it tells by name, each file runs once more, alone, so
 * that what is wrong gets the name of a file. `folderOf` gives a folder that nobody uses.
 */
export async function runGroup(
  files: readonly string[],
  running: Running,
  options: Omit<FileOptions, 'folder'>,
  folderOf: () => string,
): Promise<FileRun[]> {
  if (files.length > 1) {
    const ofGroup = { ...options, limitMs: LIMIT_TIMES * options.limitMs, folder: folderOf() }
    const { code, output, late, reports, leftovers } = await runProcess(files, running, ofGroup)
    const isNamed = code === 0 || reports.some(({ failed }) => failed > 0)
    const isWhole = files.every((file) => reports.some((report) => report.file === file && hasTests(report)))
    if (isNamed && isWhole && !late && leftovers.length === 0) {
      return reports.map((report) => ({ ...report, output: report.failed > 0 ? output : '', late }))
    }
    const why = [output.trimEnd(), `ended with code ${code}${late ? ', at its limit' : ''}`, ...leftovers].join('\n')
    console.log(`${files.length} files do not run together and run alone: ${files.join(' ')}\n${why}`)
  }
  const alone: FileRun[] = []
  for (const file of files) alone.push(await runFile(file, running, { ...options, folder: folderOf() }))
  return alone
}

function hasTests({ passed, failed, skipped }: { passed: number; failed: number; skipped: number }): boolean {
  return passed + failed + skipped > 0
}
