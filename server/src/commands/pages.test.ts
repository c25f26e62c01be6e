/** Organizations and keys are listed by pages, however many there are, and all of them as a stream. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type Books, openBooks } from '../../test/books.ts'
import { TurnedClock } from '../../test/clock.ts'
import { runCommand } from '../../test/commandContext.ts'

/** More than two pages of `--all`. */
const ORGANIZATIONS = 2_100
const clock = new TurnedClock(Date.UTC(2030, 0, 10, 12))

let books: Books
beforeAll(async () => {
  books = await openBooks(clock)
  await books.database.query(
    `with made as (
       insert into organizations (id, name, standing, created_at)
       select ('01b90000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'crowd ' || n, 'established', now()
       from generate_series(1, $1::integer) n returning id
     )
     insert into api_keys (id, organization_id, hash, scopes, admin, created_at)
     select id, id, decode(md5(id::text) || md5(id::text), 'hex'), 'read_only', false, now() from made`,
    [ORGANIZATIONS],
  )
}, 60_000)
afterAll(() => books.drop())

const tollgate = (...argv: string[]) => runCommand(argv, { database: books.database, clock })

async function idsOf(...argv: string[]): Promise<string[]> {
  const { exitCode, stdout } = await tollgate(...argv, '--json')
  expect(exitCode).toBe(0)
  return (JSON.parse(stdout) as { id: string }[]).map(({ id }) => id)
}

test.each([['orgs'], ['keys']])('%s: pages follow each other without a gap, the newest row first', async (noun) => {
  const all = await idsOf(noun, 'list', '--all')
  expect(all).toHaveLength(ORGANIZATIONS)
  expect(all).toEqual([...all].sort().reverse())
  const first = await idsOf(noun, 'list')
  const second = await idsOf(noun, 'list', '--limit', '70', '--after', first.at(-1) ?? '')
  expect([...first, ...second]).toEqual(all.slice(0, 120))
  expect(await idsOf(noun, 'list', '--all', '--after', all[2_000] ?? '')).toEqual(all.slice(2_001))
})

test('a page of text says how to see more, and the stream has every row and no line beyond 80 columns', async () => {
  const { stdout } = await tollgate('orgs', 'list', '--limit', '2')
  expect(stdout).toMatch(
    /^NAME +ID .*\ncrowd 2100 .*\ncrowd 2099 .*\nThere are more: add --after [0-9a-f-]{36}, or --all\.\n$/,
  )
  const all = (await tollgate('keys', 'list', '--all')).stdout
  expect(all.match(/crowd \d+/g)).toHaveLength(ORGANIZATIONS)
  for (const line of all.split('\n')) expect(line.length).toBeLessThanOrEqual(80)
  const last = await tollgate('orgs', 'list', '--limit', '2', '--after', '01b90000-0000-7000-8000-000000000003')
  expect(last.stdout).not.toContain('There are more')
})

test.each([
  [['--after', 'acme'], '--after "acme" is not an id: use the last id of a page'],
  [['--all', '--limit', '3'], 'give --limit N or --all, not both'],
  [['--limit', '0'], '--limit "0" is not a number of rows: use 1 to 1000'],
])('%p is refused', async (options, says) => {
  const { exitCode, stderr } = await tollgate('orgs', 'list', ...options)
  expect([exitCode, stderr.includes(says)]).toEqual([2, true])
})
