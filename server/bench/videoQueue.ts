/**
 * Measures the cost of a claim with few and with very many jobs waiting, 99 of a hundred of them one organization's,
 * and how soon another organization's job is started behind them.
 *
 *     bun server/bench/videoQueue.ts [--jobs 1000000]
 */

import { systemClock } from '../src/infra/clock.ts'
import { startNext } from '../src/videos/queue/start.ts'
import { runVideos } from '../src/videos/run.ts'
import { openVideoHouse, type VideoHouse } from '../test/videoHouse.ts'
import { median } from './statistics.ts'

const CLAIMS = 500
const WARM_UP = 50
const OTHERS = 100
const HELD = 1_000
const NEVER = new AbortController().signal

const index = process.argv.indexOf('--jobs')
const most = index < 0 ? 1_000_000 : Number(process.argv[index + 1])

/** A database with so many jobs waiting. */
interface Queue {
  readonly house: VideoHouse
  readonly crowd: string
  readonly others: readonly string[]
}

const short = await openQueue(HELD)
const long = await openQueue(most)
const [few, many] = await measure(short.house, long.house)
await short.house.close()
console.log(
  `claim, median of ${CLAIMS} by turns: ${few.toFixed(3)} ms with ${HELD} waiting, ${many.toFixed(3)} ms with ${most}`,
)
console.log(`that is ${((many / few - 1) * 100).toFixed(1)} % more`)

const { house } = long
const runner = runVideos(house.process())
const waits: number[] = []
for (let count = 0; count < 20; count += 1) {
  const own = await house.organization(1_000_000_000_000n)
  const beganMs = performance.now()
  const video = await house.create(own)
  while ((await house.find(video)).status !== 'in_progress') await new Promise((resolve) => setTimeout(resolve, 5))
  waits.push(performance.now() - beganMs)
}
await runner.stop()
waits.sort((a, b) => a - b)
console.log(
  `another's job in progress after ${waits[10]?.toFixed(0)} ms (median), ${waits.at(-1)?.toFixed(0)} ms (longest of 20)`,
)
await house.close()

async function openQueue(jobs: number): Promise<Queue> {
  const house = await openVideoHouse(systemClock, { concurrency: 1_000_000 })
  house.provider.looking = () => ({ kind: 'working', progress: null })
  const crowd = await house.organization(1_000_000_000_000_000n)
  const others: string[] = []
  for (let count = 0; count < OTHERS; count += 1) others.push(await house.organization(1_000_000_000_000n))
  await house.create(crowd)
  const part = 50_000
  for (let filled = 0; filled < jobs; filled += part)
    await fill({ house, crowd, others }, Math.min(part, jobs - filled))
  await house.database.query('vacuum analyze videos')
  await house.database.query('checkpoint')
  return { house, crowd, others }
}

/** Claims from both by turns, so that a slow moment of the machine is both's; milliseconds of the median claim of each. */
async function measure(...houses: readonly [VideoHouse, VideoHouse]): Promise<[number, number]> {
  const both = houses.map((house) => ({ dependencies: house.process(), took: [] as number[] }))
  for (let count = 0; count < WARM_UP + CLAIMS; count += 1) {
    for (const { dependencies, took } of both) {
      const beganMs = performance.now()
      await startNext(dependencies, 'svc/film', 1, NEVER)
      if (count >= WARM_UP) took.push(performance.now() - beganMs)
      // As few are under way as ever: a claim counts them.
      await dependencies.database.query(
        "update videos set status = 'cancelled', due_at = null where status = 'submitting'",
      )
    }
  }
  const [few = [], many = []] = both.map(({ took }) => took)
  return [median(few), median(many)]
}

async function fill({ house, crowd, others }: Queue, jobs: number): Promise<void> {
  await house.database.query(
    `insert into videos (id, organization_id, key_id, created_at, model, tier, price_hash, second_microcents, prompt, seconds,
       status, due_at)
     select gen_random_uuid(), case when n % 100 > 0 then $1::uuid else ($2::text::uuid[])[1 + (n / 100) % ${OTHERS}] end, $1::uuid,
       now(), 'svc/film', 'serverless', '\\x00', 1, 'a cat', 4, 'queued', now() + interval '2 hours'
     from generate_series(1, $3::integer) n`,
    [crowd, `{${others.join(',')}}`, jobs],
  )
}
