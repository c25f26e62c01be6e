/**
 * The programs that tests need beyond npm. Where one is missing, the tests that need it are skipped by name, and the run
 * says how to install it; CI has all of them. A test that needs another program adds a line to `PROGRAMS`.
 */

import type { Closures } from './closure.ts'

export interface Program {
  readonly name: string
  readonly debianPackage: string
  readonly purpose: string
  /** Test files that need it, and modules that bring it to the tests that import them. */
  readonly usedBy: readonly string[]
}

const PROGRAMS: readonly Program[] = [
  {
    name: 'strace',
    debianPackage: 'strace',
    purpose: 'ends the server at a chosen system call',
    usedBy: [
      'server/test/faults/killRun.ts',
      'server/test/faults/keptFile.test.ts',
      'server/test/deposits/killedGateways.ts',
    ],
  },
  {
    name: 'redis-server',
    debianPackage: 'redis-server',
    purpose: 'shares limits between processes',
    usedBy: ['server/test/redis.ts'],
  },
  {
    name: 'ffmpeg',
    debianPackage: 'ffmpeg',
    purpose: 'makes clips and turns them into mp4',
    usedBy: ['server/test/clip.ts'],
  },
  {
    name: 'pgbouncer',
    debianPackage: 'pgbouncer',
    purpose: 'a pooler in front of PostgreSQL',
    usedBy: ['server/src/infra/postgres/pooler.long.test.ts'],
  },
  {
    name: 'chromium',
    debianPackage: 'chromium',
    purpose: 'plays clips, and opens pages',
    usedBy: ['server/src/providers/sandbox/video.long.test.ts', 'server/test/chromium.ts'],
  },
  {
    name: 'python3',
    debianPackage: 'python3-venv',
    purpose: 'the official client for Python, schemathesis, llama.cpp, and the program that recomputes charges',
    usedBy: ['server/test/python.ts'],
  },
]

export interface MissingProgram {
  readonly program: Program
  /** The files that are skipped without it. */
  readonly files: readonly string[]
}

export interface Chosen {
  readonly files: readonly string[]
  readonly missing: readonly MissingProgram[]
}

/** Debian keeps servers where an ordinary user's PATH does not look. */
const PATH = `${process.env['PATH'] ?? ''}:/usr/local/sbin:/usr/sbin:/sbin`

/** Returns whether a program can be started on this machine. */
function isInstalled(name: string): boolean {
  return Bun.which(name, { PATH }) !== null
}

/** Parts the files into those that can run and those for which a program is missing. */
export function chooseRunnable(
  files: readonly string[],
  closures: Closures,
  has: (name: string) => boolean = isInstalled,
): Chosen {
  const missing: MissingProgram[] = []
  const skipped = new Set<string>()
  for (const { program, files: users } of neededBy(files, closures)) {
    if (has(program.name)) continue
    missing.push({ program, files: users })
    for (const file of users) skipped.add(file)
  }
  return { files: files.filter((file) => !skipped.has(file)), missing }
}

/** The programs that some of the files need, each with these files. */
function neededBy(files: readonly string[], closures: Closures): MissingProgram[] {
  return PROGRAMS.map((program) => ({
    program,
    files: files.filter((file) => {
      const brought = closures.of(file)
      return program.usedBy.some((path) => brought.has(path))
    }),
  })).filter(({ files: users }) => users.length > 0)
}
