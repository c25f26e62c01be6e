/** The tests of identity providers see bugs: each is put into a copy of the source, and the test that is named must fail there. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { copyToPlantIn, type PlantedCopy } from '../plantedCopy.ts'
import { type Running, runFile } from '../runner/runFile.ts'
import { PLANTED_IDENTITY_BUGS } from './plantedIdentityBugs.ts'

const BASE = 'server/src/identity/accounts'
const FILES = ['gateway', 'forged'] as const
/** A file takes ten seconds, on a busy machine some more. */
const FILE_LIMIT_MS = 200_000
const LIMIT_MS = 2 * FILE_LIMIT_MS + 50_000

let copy: PlantedCopy
const running: Running = new Set()
beforeAll(async () => {
  copy = await copyToPlantIn()
})
afterAll(() => copy.close())

let runs = 0
async function failuresOf(file: (typeof FILES)[number]): Promise<readonly string[]> {
  runs += 1
  const { folder, environment } = copy
  const { failed, output } = await runFile(`${BASE}/identityProviders/${file}.test.ts`, running, {
    checkout: folder,
    folder: join(folder, `run-${runs}`),
    environment,
    limitMs: FILE_LIMIT_MS,
  })
  const names = output.split('\n').flatMap((line) => /^\(fail\) (.*)/.exec(line)?.[1] ?? [])
  // A file that can't be loaded fails without the name of a test: it has found nothing.
  return failed > 0 && names.length === 0 ? [`no test by name:\n${output}`] : names
}

test.each([...FILES])(
  'the copy itself passes: %s',
  async (file) => {
    expect(await failuresOf(file)).toEqual([])
  },
  LIMIT_MS,
)

test.each(PLANTED_IDENTITY_BUGS.map((bug) => [bug.name, bug] as const))(
  'found: %s',
  async (name, { exchanges, found: [file, which] }) => {
    const takeBack = await copy.plant(name, BASE, exchanges)
    try {
      const failures = await failuresOf(file)
      expect({
        name,
        failures: failures.filter((each) => each.includes(which)).length > 0 ? [which] : failures,
      }).toEqual({
        name,
        failures: [which],
      })
    } finally {
      await takeBack()
    }
  },
  LIMIT_MS,
)
