/** The simulator sees a bug in the code and one in a statement; `test:long` plants all of the table. */

import { afterAll, beforeAll, test } from 'bun:test'
import { PLANTED_BUGS } from './plantedBugs.ts'
import { openPlanter, type Planter } from './planter.ts'

let planter: Planter
beforeAll(async () => {
  planter = await openPlanter()
})
afterAll(() => planter.close())

/** The first of the table for each kind of history. */
const ONE_OF_EACH_KIND = [...new Map([...PLANTED_BUGS].reverse().map((bug) => [bug.shownBy, bug])).values()]

test.each(ONE_OF_EACH_KIND.map((bug) => [bug.name, bug] as const))('found: %s', (_, bug) => planter.expectFound(bug))
