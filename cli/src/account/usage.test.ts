import { expect, test } from 'bun:test'
import { testSystem } from '../../test/testSystem.ts'
import { runLine } from '../run.ts'

const INSTANCE = '01920e4c-7c00-7c3a-9d5e-0a6f4f1b2c3d'
const row = { bucket_start: '2031-05-17T00:00:00.000Z', gpu_seconds: 74, cost_cents: 40, gpu_type: 'a100' }
const CALLS = { ...row, gpu_seconds: 0, cost_cents: 0, gpu_type: null, instance_id: null }

/** Types a line, and returns the questions to the server, and the words of the answer. */
async function type(words: readonly string[], data: readonly object[]) {
  const asked: string[] = []
  const { system, printed } = testSystem({
    fetch: async (url) => {
      asked.push(String(url).replace('http://gateway.test', ''))
      return Response.json({ data, next_cursor: 'c2' })
    },
  })
  expect(await runLine(['usage', ...words], system)).toBe(0)
  return { asked, out: printed.out }
}

test('usage by instance is that of GET /usage: a row for each, with the seconds of its GPUs', async () => {
  const { asked, out } = await type(
    ['--group-by', 'instance_id', '--bucket', 'day', '--limit', '2'],
    [{ ...row, instance_id: INSTANCE }, CALLS],
  )
  expect(asked).toEqual(['/v1/usage?bucket=day&limit=2&group_by=instance_id'])
  expect(out).toMatch(/^FROM \(UTC\) +INSTANCE +GPU SECONDS +COST\n/)
  expect(out).toMatch(new RegExp(`\\n2031-05-17 00:00 +${INSTANCE} +74 +\\$0\\.40\\n`))
  expect(out).toMatch(/ +calls to models +0 +below \$0\.01\n/)
  expect(out).toContain('--cursor c2')
})

test('usage by GPU type needs no bucket', async () => {
  const { asked, out } = await type(['--group-by', 'gpu_type'], [{ ...row, instance_id: null }])
  expect(asked).toEqual(['/v1/usage?group_by=gpu_type'])
  expect(out).toMatch(/^FROM \(UTC\) +GPU TYPE +GPU SECONDS +COST\n.* +a100 +74 +\$0\.40\n/)
})
