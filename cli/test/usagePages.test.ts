/** The pages of `tollgate usage`, as its own advice asks for them: the command's own code, and a whole gateway. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { ensureChargePartition } from '../../server/src/billing/charges/partitions/prepare.ts'
import { postCharges } from '../../server/src/billing/charges/post.ts'
import { systemRandom } from '../../server/src/infra/random.ts'
import { uuidV7 } from '../../server/src/lib/ids.ts'
import { type Clock, DAY_MS, HOUR_MS, MINUTE_MS } from '../../server/src/lib/time.ts'
import { type Gateway, openGateway, type TestKey } from '../../server/test/gateway.ts'
import { runLine } from '../src/run.ts'
import { testSystem } from './testSystem.ts'

const NOW = Date.UTC(2026, 4, 20, 10, 30)

let gateway: Gateway
let key: TestKey
/** Later at each command, by a part of an hour. */
let nowMs = NOW
const clock: Clock = { now: () => nowMs, monotonicMs: () => 0, after: () => () => {} }
beforeAll(async () => {
  gateway = await openGateway({ clock })
  key = await gateway.customer()
  const random = systemRandom()
  for (const [index, model] of ['svc/a', 'svc/b', 'svc/c'].entries()) {
    const atMs = NOW - 2 * DAY_MS - index * HOUR_MS
    await ensureChargePartition(gateway.database, Math.floor(atMs / DAY_MS) * DAY_MS)
    const charge = {
      chargeId: uuidV7(atMs, random),
      admittedAtMs: atMs,
      organizationId: key.organizationId,
      keyId: key.id,
      model,
      tier: 'serverless',
      priceHash: new Uint8Array(32),
      usage: { promptTokens: 1, cachedPromptTokens: 0, completionTokens: 1 },
      estimated: false,
      costMicrocents: 1_000_000n,
      target: 'sandbox/x',
      outcome: 'completed',
    } as const
    await postCharges(gateway.database, 0, [charge], NOW)
  }
}, 60_000)
afterAll(() => gateway.close())

/** The windows of the answers, where they have one. */
const windows = new Set<string>()

/** Types a line 50 minutes after the one before. */
async function type(words: readonly string[]) {
  nowMs += 50 * MINUTE_MS
  const { system, printed } = testSystem({
    stdoutColumns: Number.POSITIVE_INFINITY,
    environment: { TOLLGATE_API_KEY: key.key, TOLLGATE_URL: 'http://gateway.test' },
    fetch: async (url, request) => {
      const answer = await gateway.send(url.replace('http://gateway.test', '').replace(/^\/v1/, ''), request)
      const { start, end } = (await answer.clone().json()) as { readonly start?: string; readonly end?: string }
      windows.add(`${start} ${end}`)
      return answer
    },
  })
  const code = await runLine(words, { ...system, clock })
  return { code, ...printed }
}

test.each([
  [['--start', '7d', '--bucket', 'hour']],
  [['--start', '7d', '--end', '1d', '--bucket', 'hour']],
  [['--bucket', 'hour']],
  [['--group-by', 'gpu_type', '--start', '7d', '--bucket', 'hour']],
  [['--group-by', 'model', '--start', '7d', '--end', '1d']],
  [['--group-by', 'model,key', '--start', '7d']],
  [['--group-by', 'model']],
])('tollgate usage %j has its rows on pages, each asked for by the advice under the one before', async (words) => {
  windows.clear()
  const rows: string[] = []
  let added: string[] = []
  for (;;) {
    const shown = await type(['usage', ...words, '--limit', '1', ...added])
    expect([shown.code, shown.said]).toEqual([0, ''])
    rows.push(shown.out.split('\n')[1] ?? '')
    const more = /^There are more: add (--cursor .*) to see them\.$/m.exec(shown.out)?.[1]
    if (more === undefined) break
    added = more.split(' ')
  }
  expect([rows.length, new Set(rows).size, windows.size]).toEqual([3, 3, 1])
})

test('a date beside a cursor that was made with another one is refused, and so is a time ago where the cursor has no start', async () => {
  const page = JSON.parse((await type(['usage', '--start', '7d', '--bucket', 'hour', '--limit', '1', '--json'])).out)
  const other = await type(['usage', '--start', '2026-05-15', '--cursor', page.next_cursor])
  expect([other.code, other.said]).toEqual([2, expect.stringContaining('was made with another')])
  const groups = JSON.parse((await type(['usage', '--group-by', 'model', '--limit', '1', '--json'])).out)
  const ago = await type(['usage', '--group-by', 'model', '--start', '7d', '--cursor', groups.next_cursor])
  expect([ago.code, ago.said]).toEqual([2, expect.stringContaining('--start: beside --cursor must be the date')])
})
