/** A copy of the source into which bugs are put, to see that tests find them. */

import { expect } from 'bun:test'
import { existsSync } from 'node:fs'
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startTestPostgres, TEST_POSTGRES_VARIABLE, type TestPostgres } from './postgres.ts'
import { CHECKOUT } from './tidy/sources.ts'

export interface PlantedExchange {
  /** From the folder that the table of bugs is of. */
  readonly file: string
  /** Stands in the file exactly once. */
  readonly search: string
  readonly replace: string
}

export interface PlantedCopy {
  readonly folder: string
  /** For programs that run in the copy: it names a PostgreSQL. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Makes exchanges in files of a folder, such as `server/src/payments`; returns what takes them back. */
  plant(name: string, base: string, exchanges: readonly PlantedExchange[]): Promise<() => Promise<void>>
  close(): Promise<void>
}

/** Copies the source and the tests. Call `close` in `afterAll`. */
export async function copyToPlantIn(): Promise<PlantedCopy> {
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-planted-'))
  for (const part of ['server/src', 'server/test', 'server/migrations', 'server/package.json']) {
    const filter = (path: string) => !path.endsWith('/node_modules')
    await cp(join(CHECKOUT, part), join(folder, part), { recursive: true, filter })
  }
  // npm puts some packages of the server beside it, unless it finds room for all of them at the top.
  const packages = ['node_modules', 'server/node_modules', 'server/test/node_modules']
  for (const path of packages.filter((each) => existsSync(join(CHECKOUT, each))))
    await symlink(join(CHECKOUT, path), join(folder, path))
  const environment = { ...process.env }
  let postgres: TestPostgres | null = null
  if (!environment[TEST_POSTGRES_VARIABLE]) {
    postgres = await startTestPostgres()
    environment[TEST_POSTGRES_VARIABLE] = postgres.url
  }
  return {
    folder,
    environment,
    plant: (name, base, exchanges) => plant(join(folder, base), name, exchanges),
    async close() {
      await postgres?.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function plant(base: string, name: string, exchanges: readonly PlantedExchange[]): Promise<() => Promise<void>> {
  const sources = new Map<string, string>()
  for (const { file, search, replace } of exchanges) {
    const path = join(base, file)
    const source = await readFile(path, 'utf8')
    // A bug that can't be planted any more shows nothing: mend the table.
    const places = source.split(search).length - 1
    expect({ name, file, places }).toEqual({ name, file, places: 1 })
    if (!sources.has(path)) sources.set(path, source)
    await writeFile(
      path,
      source.replace(search, () => replace),
    )
  }
  return async () => {
    for (const [path, source] of sources) await writeFile(path, source)
  }
}
