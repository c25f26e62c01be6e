import { expect, test } from 'bun:test'
import { testSystem } from '../../test/testSystem.ts'
import { runLine } from '../run.ts'

const ID = '01920e4c-7c00-7c3a-9d5e-0a6f4f1b2c3d'
const SCOPE = 'serverless:write,billing:read,webhooks:read'
const KEY = {
  ...{ id: ID, name: 'nightly-report', scope: SCOPE, admin: false, state: 'active', member_id: null },
  ...{ created_at: '2031-01-01T00:00:00.000Z', expires_at: '2031-12-31T18:00:00.000Z', last_used_at: null },
}

async function list(stdoutColumns: number): Promise<string> {
  const { system, printed } = testSystem({
    stdoutColumns,
    fetch: async () => Response.json({ data: [KEY, KEY], next_cursor: null }),
  })
  expect(await runLine(['keys', 'list'], system)).toBe(0)
  return printed.out
}

test('on a narrow terminal each key has a few lines of its own, and no word is broken', async () => {
  const out = await list(80)
  expect(out).toStartWith(`Id        ${ID}\nName      nightly-report\nScope     ${SCOPE}\nOwner     organization\n`)
  expect(out.split('\n\n')).toHaveLength(2)
  expect(Math.max(...out.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80)
})

test('on a wide one there is a table', async () => {
  expect(await list(160)).toMatch(/^ID +NAME +SCOPE +OWNER +LAST USE +EXPIRES\n/)
})

test.each([
  [['keys', 'create', 'x', '--scope', 'foo'], 'The scope is not valid: "foo" is not a scope.', '--scope: "foo"'],
  [
    ['instances', 'create', 'app', '--gpu-type', 'h100', '--price', '1'],
    'No such GPU type is offered: GET /v1/instances/offerings lists them.',
    '--gpu-type: is not offered: "tollgate instances offerings" lists them.',
  ],
])('an option that the server refuses is a mistake on the command line: %j', async (words, detail, says) => {
  const problem = { detail, code: 'validation_failed' }
  const { system, printed } = testSystem({ fetch: async () => Response.json(problem, { status: 422 }) })
  expect(await runLine(words, system)).toBe(2)
  expect(printed.said).toContain(says)
  expect(printed.said).toContain(`(see "tollgate ${words.slice(0, 2).join(' ')} --help")`)
})
