/** Installs a folder's npm packages at the versions of its package-lock.json, whole or not at all. */

import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cp, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Environment } from '../lib/environment.ts'
import { codeOf } from './folder.ts'

const MODULES = 'node_modules'
/** In `node_modules`: the SHA-256 of the lock file that it was installed from. Written last, so that half of it never counts. */
const STAMP = '.tollgate-lock'
/** Beside `node_modules`, and named with the process that writes it: a rename within one file system takes no time. */
const STAGING = '.staging-'
/** Of what npm says, for the message of a failure. */
const TAIL_CHARACTERS = 2_000

/** The packages could not be installed. The message says why, and what to do. */
export class InstallFailure extends Error {
  override readonly name = 'InstallFailure'
}

export interface InstallOptions {
  /** Absolute; has a package.json and a package-lock.json. */
  readonly folder: string
  /** This process's environment: npm needs the path, the home, proxies and registries of it. */
  readonly environment: Environment
  /** The program that installs; left out: npm. */
  readonly npm?: string
}

/** Returns whether `folder` has the packages of its lock file. */
export async function isInstalled(folder: string): Promise<boolean> {
  const stamp = await readFile(join(folder, MODULES, STAMP), 'utf8').catch(() => null)
  return stamp !== null && stamp === (await lockHash(folder))
}

/**
 * Installs the packages of a folder's lock file unless they are there, without running their scripts; says whether it
 * installed any. Safe to be killed and to be run by several at once. Throws {@link InstallFailure}.
 */
export async function installPackages(options: InstallOptions): Promise<boolean> {
  const { folder } = options
  if (await isInstalled(folder)) return false
  try {
    await removeLeftBehind(folder)
    const staging = join(folder, `${STAGING}${process.pid}`)
    await mkdir(staging)
    try {
      for (const name of ['package.json', 'package-lock.json']) await cp(join(folder, name), join(staging, name))
      await runNpm(options, staging)
      await writeFile(join(staging, MODULES, STAMP), await lockHash(staging))
      await putInPlace(folder, staging)
    } finally {
      await rm(staging, { recursive: true, force: true })
    }
  } catch (error) {
    if (error instanceof InstallFailure) throw error
    const isForbidden = ['EACCES', 'EROFS', 'EPERM'].includes(String(codeOf(error)))
    const advice = isForbidden ? ': run this as the user who owns the checkout' : ''
    throw new InstallFailure(`the packages can't be installed in ${folder} (${wordsOf(error)})${advice}`)
  }
  return true
}

async function lockHash(folder: string): Promise<string> {
  return createHash('sha256')
    .update(await readFile(join(folder, 'package-lock.json')))
    .digest('hex')
}

/** Moves packages of another lock away, and the new ones into their place, unless another process was first. */
async function putInPlace(folder: string, staging: string): Promise<void> {
  if (await isInstalled(folder)) return
  const modules = join(folder, MODULES)
  await rename(modules, join(staging, 'former')).catch((error: unknown) => {
    if (codeOf(error) !== 'ENOENT') throw error
  })
  await rename(join(staging, MODULES), modules).catch(async (error: unknown) => {
    if (!(await isInstalled(folder))) throw error
  })
}

/** Removes what killed processes left. A process that lives is at work on its own. */
async function removeLeftBehind(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!name.startsWith(STAGING) || isAlive(Number(name.slice(STAGING.length)))) continue
    await rm(join(folder, name), { recursive: true, force: true })
  }
}

function isAlive(pid: number): boolean {
  if (pid === process.pid) return false
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return codeOf(error) === 'EPERM'
  }
}

function runNpm({ npm = 'npm', environment }: InstallOptions, folder: string): Promise<void> {
  const child = spawn(npm, ['ci', '--prefix', folder, '--ignore-scripts', '--no-audit', '--no-fund'], {
    cwd: folder,
    env: withoutNpmsOwn(environment),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let tail = ''
  const take = (bytes: Buffer) => (tail = (tail + bytes.toString()).slice(-TAIL_CHARACTERS))
  child.stdout.on('data', take)
  child.stderr.on('data', take)
  return new Promise((resolve, reject) => {
    child.on('error', (error) =>
      reject(
        codeOf(error) === 'ENOENT'
          ? new InstallFailure(`${npm} is not found: install Node 20 or newer, with npm, and try again`)
          : error,
      ),
    )
    child.on('close', (code) =>
      code === 0 ? resolve() : reject(new InstallFailure(`npm could not install the packages: ${lastWords(tail)}`)),
    )
  })
}

/** Run by an npm script, this process has npm's own variables, which would send another npm to the wrong folder. */
function withoutNpmsOwn(environment: Environment): Record<string, string> {
  const own = /^npm_(package|lifecycle|config_(local_)?prefix$)|^INIT_CWD$/
  return Object.fromEntries(
    Object.entries(environment).filter(
      (entry): entry is [string, string] => entry[1] !== undefined && !own.test(entry[0]),
    ),
  )
}

/** The lines in which npm says why, or its last one. */
function lastWords(output: string): string {
  const lines = output.split('\n').filter((line) => line.trim() !== '')
  const errors = lines.filter((line) => line.startsWith('npm error') && !line.includes('complete log'))
  return (errors.length > 0 ? errors : lines.slice(-1))
    .map((line) => line.replace(/^npm error ?/, ''))
    .join(' ')
    .trim()
}

const wordsOf = (error: unknown) => (error instanceof Error ? error.message : String(error))
