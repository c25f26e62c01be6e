/** Each planted bug still has its place in the source, and the simulator sees one of each kind; `test:long` plants all. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { CHECKOUT } from '../tidy/sources.ts'
import { PLANTED_BUGS } from './plantedBugs.ts'
import { openPlanter, type Planter } from './planter.ts'

let planter: Planter
beforeAll(async () => {
  planter = await openPlanter()
})
afterAll(() => planter.close())

// A bug that can't be planted any more shows nothing: mend the table.
test.each(PLANTED_BUGS.map((bug) => [bug.name, bug] as const))('can be planted: %s', async (_, { file, search }) => {
  const source = await readFile(join(CHECKOUT, 'server/src', file), 'utf8')
  expect({ file, places: source.split(search).length - 1 }).toEqual({ file, places: 1 })
})

/** The first of the table for each kind of history and of trouble. */
const ONE_OF_EACH_KIND = [
  ...new Map([...PLANTED_BUGS].reverse().map((bug) => [`${bug.shownBy} ${bug.trouble ?? ''}`, bug])).values(),
]

test.each(ONE_OF_EACH_KIND.map((bug) => [bug.name, bug] as const))('found: %s', (_, bug) => planter.expectFound(bug))
