/** An export of a million charges from a real server: what it keeps in memory, and that a customer's program recomputes the month. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFile, writeFile } from 'node:fs/promises'
import { recomputeBill } from '../../../test/billingGuide.ts'
import { openDirectory } from '../../../test/dataDirectory.ts'
import { startServer, type TestServer } from '../../../test/server.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { DAY_MS } from '../../lib/time.ts'
import { ensureChargePartition } from '../charges/partitions/prepare.ts'

const CHARGES = 1_000_000
const MOST_MEGABYTES = 50

const now = new Date()
const startMs = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - 1)
const endMs = Date.UTC(now.getUTCFullYear(), now.getUTCMonth())
const MONTH = new Date(startMs).toISOString().slice(0, 7)

let server: TestServer
let database: Database
let address: string
beforeAll(async () => {
  server = await startServer()
  address = server.url.replace(/\/v1$/, '')
  database = await openDirectory(server.dataDir)
  for (let dayMs = startMs - 3 * DAY_MS; dayMs < endMs; dayMs += DAY_MS) await ensureChargePartition(database, dayMs)
  await addCharges()
}, 300_000)
afterAll(async () => {
  await database.close()
  await server.remove()
}, 60_000)

/** Charges of the month, evenly over it, in pieces that a statement has the time for. Some were admitted the month before. */
async function addCharges(): Promise<void> {
  await database.query(
    `insert into served_models (model, tier, price_hash, target)
     select 'svc/model-' || n, 'serverless', '', 'mock/m' from generate_series(0, 6) n`,
    [],
  )
  const piece = CHARGES / 20
  for (let from = 0; from < CHARGES; from += piece) {
    await database.query(
      `insert into charges (admitted_at, id, organization_id, key_id, served_model, prompt_tokens, cached_prompt_tokens,
         completion_tokens, estimated, cost_microcents, outcome, posted_at)
       select admitted_at, overlay(overlay(gen_random_uuid()::text placing '7' from 15)
           placing substr(ms, 1, 8) || '-' || substr(ms, 9, 4) from 1)::uuid,
         organization_id, key_id, (select id from served_models where model = 'svc/model-' || n % 7), 1000, 10, 200, false,
         1000000 + n::bigint * 7919 % 999983, 'completed', posted_at
       from (select n, posted_at, admitted_at, lpad(to_hex((extract(epoch from admitted_at) * 1000)::bigint), 12, '0') as ms
         from (select n, posted_at, posted_at - case n % 1000 when 0 then interval '2 days' else interval '3 seconds' end as admitted_at
           from (select n, $1::timestamptz + n * $2::float8 * interval '1 millisecond' as posted_at
             from generate_series($3::integer, $4::integer) n) p) a) c
       cross join (select organization_id, id as key_id from api_keys limit 1) k`,
      [new Date(startMs).toISOString(), Math.floor((endMs - startMs) / CHARGES), from, from + piece - 1],
    )
  }
  await database.query('analyze charges')
}

/** The most that the process has had in memory since this was asked last, in MB. */
async function peakMegabytes(): Promise<number> {
  const folder = `/proc/${server.process.pid}`
  const status = await readFile(`${folder}/status`, 'utf8')
  await writeFile(`${folder}/clear_refs`, '5')
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1]) / 1_024
}

const get = (path: string) =>
  fetch(`${address}/manage/v1${path}`, { headers: { Authorization: `Bearer ${server.firstKey}` } })

/** The server closes months by itself, a run a minute. */
async function untilClosed(): Promise<void> {
  for (;;) {
    const { state } = (await (await get(`/statements/${MONTH}`)).json()) as { state: string }
    if (state === 'closed') return
    await Bun.sleep(1_000)
  }
}

test(`an export of ${CHARGES} charges takes less than ${MOST_MEGABYTES} MB, and the program of the guide recomputes it`, async () => {
  await untilClosed()
  const [start, end] = [startMs, endMs].map((atMs) => new Date(atMs).toISOString())
  // The first request brings code into memory, which is not the export's.
  const day = new Date(startMs + DAY_MS).toISOString()
  await (await get(`/charges/export?start=${start}&end=${day}`)).text()
  await peakMegabytes()
  const before = await peakMegabytes()
  let bytes = 0
  let last = ''
  const startedAt = performance.now()
  const decoder = new TextDecoder()
  for await (const chunk of (await get(`/charges/export?start=${start}&end=${end}`)).body ?? []) {
    bytes += chunk.byteLength
    last = (last + decoder.decode(chunk)).slice(-100)
  }
  const seconds = (performance.now() - startedAt) / 1_000
  const peak = await peakMegabytes()
  console.log(`export: ${Math.round(bytes / 2 ** 20)} MB in ${seconds.toFixed(1)} s, +${Math.round(peak - before)} MB`)
  expect(last.trimEnd().split('\n').at(-1)).toBe('{"type":"end"}')
  expect(peak - before).toBeLessThan(MOST_MEGABYTES)

  const { code, stdout, stderr } = await recomputeBill(address, server.firstKey, MONTH)
  console.log(stdout.trim(), stderr.trim())
  const [row] = await database.query<{ cost: bigint }>('select sum(cost_microcents)::bigint as cost from charges')
  expect([code, stdout]).toEqual([0, expect.stringContaining(`${row?.cost} micro-cents charged`)])
}, 600_000)
