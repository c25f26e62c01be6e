/** The simulator sees bugs: each of the table is put into a copy of the source, and must be found there. */

import { afterAll, beforeAll, test } from 'bun:test'
import { PLANTED_BUGS } from './plantedBugs.ts'
import { openPlanter, type Planter } from './planter.ts'

let planter: Planter
beforeAll(async () => {
  planter = await openPlanter()
})
afterAll(() => planter.close())

test.each(['model', 'postgres'] as const)('the copy itself passes: %s', (kind) => planter.expectSound(kind), 60_000)

test.each(PLANTED_BUGS.map((bug) => [bug.name, bug] as const))(
  'found: %s',
  (_, bug) => planter.expectFound(bug),
  120_000,
)
