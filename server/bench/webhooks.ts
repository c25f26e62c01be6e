/** Deliveries per second to healthy endpoints, and how late they are, while others hang. README.md explains it. */

import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { systemClock } from '../src/infra/clock.ts'
import { openClient } from '../src/infra/postgres/client.ts'
import { systemRandom } from '../src/infra/random.ts'
import { toHex, uuidV7 } from '../src/lib/ids.ts'
import { SECOND_MS } from '../src/lib/time.ts'
import { createEndpoint } from '../src/webhooks/endpoints/create.ts'
import { publishEvent } from '../src/webhooks/publish.ts'
import { makeCustomer } from '../test/customer.ts'
import { oneDataKey } from '../test/oneDataKey.ts'
import { freshDatabase, startTestPostgres, TEST_POSTGRES_VARIABLE } from '../test/postgres.ts'
import { describeMachine } from './machine.ts'
import { atLeastOne, readOptions } from './options.ts'
import { Samples } from './statistics.ts'

/** The most that the setting takes: deliveries to endpoints that hang stay pending. */
const PENDING_MOST = 100_000

const USAGE =
  'usage: bun server/bench/webhooks.ts [--endpoints 1000] [--hanging 200] [--rate 1000] [--seconds 120] [--processes 1]'
const { text } = readOptions(
  USAGE,
  { endpoints: '1000', hanging: '200', rate: '1000', seconds: '120', processes: '1' },
  [],
)
const endpointCount = atLeastOne('endpoints', text['endpoints'])
const hangingCount = atLeastOne('hanging', text['hanging'])
/** Deliveries a second that are due to the healthy endpoints. */
const rate = atLeastOne('rate', text['rate'])
const seconds = atLeastOne('seconds', text['seconds'])
const processCount = atLeastOne('processes', text['processes'])

/** Endpoints of one organization; each of its events goes to all of them. */
const ENDPOINTS_EACH = Math.min(50, endpointCount)
/** Not counted: until the hanging ones are known. */
const WARM_UP_MS = 15 * SECOND_MS

const random = systemRandom()
const dataKey = random(32)
const postgres = await startTestPostgres({ durable: true })
process.env[TEST_POSTGRES_VARIABLE] = postgres.url
const { database, url, drop } = await freshDatabase()
const publisher = openClient(url, { maxConnections: 8, clock: systemClock })

const latencies = new Samples()
const seen = new Set<string>()
let arrivedCount = 0
let twiceCount = 0
let hangingOpen = 0
let countFromMs = Number.POSITIVE_INFINITY

const receiver = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  idleTimeout: 60,
  async fetch(request) {
    const { pathname } = new URL(request.url)
    if (pathname.startsWith('/hang')) {
      hangingOpen += 1
      return await new Promise<Response>((resolve) => {
        request.signal.addEventListener('abort', () => {
          hangingOpen -= 1
          resolve(new Response())
        })
      })
    }
    const nowMs = Date.now()
    const { created_at: createdAt, id } = (await request.json()) as { created_at: string; id: string }
    const publishedMs = Date.parse(createdAt)
    const delivery = `${id} ${pathname}`
    if (seen.has(delivery)) twiceCount += 1
    seen.add(delivery)
    if (publishedMs >= countFromMs) {
      arrivedCount += 1
      latencies.add(nowMs - publishedMs)
    }
    return new Response(null, { status: 204 })
  },
})

try {
  console.log(describeMachine())
  const organizations = await seed()
  const workers = Array.from({ length: processCount }, () =>
    spawn(process.execPath, [join(import.meta.dirname, 'webhooksWorker.ts'), url, toHex(dataKey)], {
      stdio: ['pipe', 'inherit', 'inherit'],
    }),
  )
  await run(organizations)
  for (const worker of workers) {
    worker.kill()
    await new Promise((resolve) => worker.once('exit', resolve))
  }
} finally {
  await publisher.close()
  await drop()
  await receiver.stop(true)
  await postgres.stop()
}

async function seed(): Promise<string[]> {
  const organizations: string[] = []
  for (let index = 0; index < endpointCount; index += 1) {
    if (index % ENDPOINTS_EACH === 0) organizations.push((await makeCustomer(database)).organizationId)
    // Hanging ones are spread over all organizations.
    const isHanging =
      Math.floor(((index + 1) * hangingCount) / endpointCount) > Math.floor((index * hangingCount) / endpointCount)
    await createEndpoint(
      { database, clock: systemClock, random, dataKeys: oneDataKey(dataKey) },
      {
        organizationId: organizations.at(-1) ?? '',
        url: `http://127.0.0.1:${receiver.port}/${isHanging ? 'hang' : 'well'}/${index}`,
        eventTypes: ['video.completed'],
        attempt: uuidV7(Date.now(), random),
        keep: async () => [],
      },
    )
  }
  return organizations
}

/** Publishes by the clock, whatever becomes of what was published: an event is as old as it should have been. */
async function run(organizations: readonly string[]): Promise<void> {
  const healthyEach = (ENDPOINTS_EACH * (endpointCount - hangingCount)) / endpointCount
  const gapMs = (SECOND_MS * healthyEach) / rate
  const startMs = Date.now()
  countFromMs = startMs + WARM_UP_MS
  const endMs = countFromMs + seconds * SECOND_MS
  const open = new Set<Promise<void>>()
  let lateMs = 0
  let dueCount = 0
  let hangingMost = 0
  for (let index = 0; ; index += 1) {
    const dueMs = Math.floor(startMs + index * gapMs)
    if (dueMs >= endMs) break
    const waitMs = dueMs - Date.now()
    if (waitMs > 0) await Bun.sleep(waitMs)
    if (dueMs >= countFromMs) {
      dueCount += healthyEach
      lateMs = Math.max(lateMs, Date.now() - dueMs)
    }
    hangingMost = Math.max(hangingMost, hangingOpen)
    const publishing = publish(organizations[index % organizations.length] ?? '', dueMs).finally(() =>
      open.delete(publishing),
    )
    open.add(publishing)
  }
  await Promise.all(open)
  const atEnd = arrivedCount
  for (let waits = 0; waits < 100 && arrivedCount < dueCount; waits += 1) await Bun.sleep(100)
  const { p50, p99, p999, max } = latencies.percentiles()
  console.log(
    `${seconds} s, ${endpointCount} endpoints of which ${hangingCount} hang, ${processCount} worker process(es)`,
  )
  console.log(`deliveries to healthy endpoints: ${(atEnd / seconds).toFixed(0)}/s within the run (due: ${rate}/s)`)
  console.log(`from publishing to arrival: p50 ${p50} ms, p99 ${p99} ms, p99.9 ${p999} ms, most ${max} ms`)
  console.log(`never arrived: ${Math.round(dueCount) - arrivedCount}; arrived twice: ${twiceCount}`)
  console.log(`open to hanging endpoints at once: at most ${hangingMost}; publisher late by at most ${lateMs} ms`)
}

function publish(organizationId: string, createdAtMs: number): Promise<void> {
  const data = { video: { id: 'video_1', object: 'video', model: 'svc/clip', status: 'completed' } }
  const id = uuidV7(createdAtMs, random)
  return publisher.transaction((tx) =>
    publishEvent(tx, { id, organizationId, type: 'video.completed', createdAtMs, data }, PENDING_MOST),
  )
}
