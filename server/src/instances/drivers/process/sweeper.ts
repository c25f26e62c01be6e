/**
 * Removes the files of apps that are deleted. An app may have left files that take minutes to remove. So they are moved away first, which
 * takes a moment, and a program of the system removes them beside everything else.
 */

import { existsSync } from 'node:fs'
import { mkdir, readdir, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { absentAs, codeOf, FOLDER_MODE } from '../../../infra/folder.ts'
import { runProgram } from '../../../infra/runProgram.ts'
import type { Log } from '../../../lib/log.ts'
import { type Clock, SECOND_MS } from '../../../lib/time.ts'
import { HELD_EXIT, type Programs, removalLine } from './commandLines.ts'

/** Homes that wait. With as many, a deletion is asked for again: the files of deleted apps must not pile up. */
const WAITING_MOST = 1_000

/** How long the files of one app may take, before it is the turn of the next. 60,000 folders, one within the other, take 3 to 20 s. */
const REMOVAL_MS = 600 * SECOND_MS

export interface Sweeper {
  /** Moves the home of a machine away. True: it is gone. False: it can't go yet, since as many as may wait already do. */
  take(name: string, home: string): Promise<boolean>
  /** Removes in the background what was moved away, by this process or another. */
  sweep(): void
}

export interface SweeperDependencies {
  /** The folder of all machines. */
  readonly directory: string
  readonly programs: Programs
  readonly clock: Clock
  readonly log: Log
}

/** Where homes wait for their removal, and the lock that whoever removes them holds. Out of reach of apps, which could hold it too. */
export function sweeperFiles(directory: string): { readonly folder: string; readonly lock: string } {
  return { folder: join(directory, 'removed/homes'), lock: join(directory, 'removed/lock') }
}

/** Opens the sweeper of a folder of machines. One process removes at a time, one home after another. */
export function openSweeper({ directory, programs, clock, log }: SweeperDependencies): Sweeper {
  const { folder, lock } = sweeperFiles(directory)
  let isSweeping = false
  let again = false
  const sweepAll = async () => {
    do {
      again = false
      for (const name of await readdir(folder).catch(absentAs<string[]>([]))) {
        const exitCode = await runRemoval(removalLine(programs, lock, join(folder, name)), clock)
        if (exitCode === HELD_EXIT) return
        if (exitCode !== 0) {
          const words = 'instances: files of a deleted app could not all be removed; the next try is within minutes'
          log.warn({ path: join(folder, name) }, words)
        }
      }
    } while (again)
  }
  return {
    async take(name, home) {
      if (!existsSync(home)) return true
      await mkdir(folder, { recursive: true, mode: FOLDER_MODE })
      const waiting = await readdir(folder)
      if (waiting.length >= WAITING_MOST) return false
      // Another home of this name may wait, when another process made the machine anew meanwhile: it stays, and so does this one for now.
      if (!waiting.includes(name)) await rename(home, join(folder, name)).catch(taken)
      return !existsSync(home)
    },
    sweep() {
      again = true
      if (isSweeping) return
      isSweeping = true
      sweepAll()
        .catch((error: unknown) => log.warn({ error }, 'instances: the files of deleted apps could not be listed'))
        .finally(() => {
          isSweeping = false
        })
    },
  }
}

const RACES: readonly unknown[] = ['ENOENT', 'ENOTEMPTY', 'EEXIST']

/** Another process has moved it, or another one of its name. */
function taken(error: unknown): void {
  if (!RACES.includes(codeOf(error))) throw error
}

/** Returns how the removal ended; null: it was ended, since it took too long or something killed it. */
async function runRemoval([path = '', ...args]: readonly string[], clock: Clock): Promise<number | null> {
  const late = new AbortController()
  const cancel = clock.after(REMOVAL_MS, () => late.abort())
  return runProgram({ path, args, input: '', signal: late.signal, outputBytesMost: 1_024, clock })
    .then(
      ({ exitCode }) => exitCode,
      () => null,
    )
    .finally(cancel)
}
