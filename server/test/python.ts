/** Packages for Python, in virtual environments of the user's cache folder: installed once for each version. */

import { existsSync } from 'node:fs'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'

const CACHE = join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'tollgate-tests')

export interface Ran {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** The environment's `bin` folder, or why there is none: no Python, or no package registry in reach. */
export async function installPython(
  name: string,
  version: string,
): Promise<{ readonly bin: string } | { readonly problem: string }> {
  const folder = join(CACHE, `python-${name}-${version}`)
  const bin = join(folder, 'bin')
  const complete = join(folder, 'complete')
  if (existsSync(complete)) return { bin }
  await rm(folder, { recursive: true, force: true })
  await mkdir(CACHE, { recursive: true })
  const pip = [join(bin, 'python'), '-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--retries', '1']
  const steps = [
    ['python3', '-m', 'venv', folder],
    [...pip, `${name}==${version}`],
  ]
  for (const step of steps) {
    const { code, stderr } = await run(step)
    if (code !== 0) return { problem: `${step.join(' ')}: ${stderr.trim().split('\n').at(-1)}` }
  }
  await writeFile(complete, '')
  return { bin }
}

export interface RunOptions {
  readonly cwd?: string
  /** Added to this process's own. */
  readonly environment?: Readonly<Record<string, string>>
  /** Aborted, the program is ended. */
  readonly signal?: AbortSignal | undefined
}

/** Runs a program to its end and keeps what it wrote. A program that is not there ends with 127. */
export async function run(command: readonly string[], options: RunOptions = {}): Promise<Ran> {
  if (Bun.which(command[0] ?? '') === null) return { code: 127, stdout: '', stderr: 'not found' }
  const { cwd, environment, signal } = options
  const child = Bun.spawn([...command], {
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
    env: { ...process.env, ...environment },
    ...(cwd === undefined ? {} : { cwd }),
    ...(signal === undefined ? {} : { signal }),
  })
  const [stdout, stderr, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { code, stdout, stderr }
}
