/**
 * Seeded races on video jobs: cancels, completions, expiries, workers that die at any step and workers that take over from
 * those who are only slow, over a real database. Every job ends once; what went with it is there once or not at all.
 *
 * `runVideoRaces.ts` runs many by hand.
 */

import { expect } from 'bun:test'
import type { Database } from '../src/infra/postgres/database.ts'
import type { Clock } from '../src/lib/time.ts'
import { HOUR_MS, MINUTE_MS } from '../src/lib/time.ts'
import type { VideoState } from '../src/providers/dialect/spec.ts'
import type { Step, VideoDependencies } from '../src/videos/job/dependencies.ts'
import { isTerminal, ofArtifact, type Video } from '../src/videos/job/video.ts'
import { runVideos, type VideoRunner } from '../src/videos/run.ts'
import { sweepFiles } from '../src/videos/sweep.ts'
import { cancel } from '../src/videos/transitions.ts'
import { type Seeded, seeded } from './faults/seeded.ts'
import { FastClock } from './moneyHouse.ts'
import { type ScriptedJob, type Taking, testVideo } from './scriptedVideos.ts'
import type { VideoHouse } from './videoHouse.ts'

const JOBS = 6
const CENT = 1_000_000n
/** Of real time in which everything happens at once. */
const CHAOS_MS = 40

/** Runs ahead of the wall's clock, and can be set forward. */
export class JumpingClock implements Clock {
  private readonly fast: FastClock
  private jumpedMs = 0

  /** By default from an afternoon in 2031, 250 times as fast. */
  constructor(epochMs = Date.UTC(2031, 4, 17, 13, 30), speed = 250) {
    this.fast = new FastClock(epochMs, speed)
  }

  now(): number {
    return this.fast.now() + this.jumpedMs
  }
  monotonicMs(): number {
    return this.fast.monotonicMs() + this.jumpedMs
  }
  after(delayMs: number, callback: () => void): () => void {
    return this.fast.after(delayMs, callback)
  }
  jump(milliseconds: number): void {
    this.jumpedMs += milliseconds
  }
}

const KILLED = new Error('this process is dead')

/** A process that may die: from then on nothing that it does has any effect. */
class Mortal {
  readonly dependencies: VideoDependencies
  readonly runner: VideoRunner
  isDead = false

  constructor(house: VideoHouse, dies: (step: Step) => boolean) {
    const own = house.process()
    const alive = () => {
      if (this.isDead) throw KILLED
    }
    const { video } = own.provider('scripted') ?? {}
    if (video === undefined) throw new Error('the house has no provider')
    const guarded = new Proxy(video, {
      get: (target, name) => {
        const found: unknown = Reflect.get(target, name)
        if (typeof found !== 'function' || !['submit', 'look', 'download', 'cancel', 'find'].includes(String(name)))
          return found
        return async (...given: unknown[]) => {
          alive()
          return found.apply(target, given)
        }
      },
    })
    const client = { name: 'scripted', chat: () => Promise.reject(KILLED), video: guarded }
    this.dependencies = {
      ...own,
      database: mortalDatabase(own.database, alive),
      artifacts: {
        ...own.artifacts,
        async write(name, pieces, most) {
          alive()
          const written = await own.artifacts.write(name, pieces, most)
          alive()
          return written
        },
        async remove(name) {
          alive()
          return own.artifacts.remove(name)
        },
      },
      providers: { targetsOf: () => [{ provider: client, model: 'film' }] },
      provider: () => client,
      reached: (step) => {
        alive()
        if (!dies(step)) return
        this.isDead = true
        throw KILLED
      },
    }
    this.runner = runVideos(this.dependencies)
  }
}

function mortalDatabase(database: Database, alive: () => void): Database {
  return {
    async query(text, parameters) {
      alive()
      return database.query(text, parameters)
    },
    async transaction(work) {
      alive()
      return database.transaction(async (tx) => {
        const result = await work(tx)
        alive()
        return result
      })
    },
    close: () => database.close(),
  }
}

/** How the provider behaves towards one job. */
interface Script {
  readonly takings: Taking[]
  readonly looks: (VideoState | 'away')[]
  readonly files: (Uint8Array | 'broken')[]
}

function scriptOf(random: Seeded): Script {
  const many = <T>(most: number, make: () => T) => Array.from({ length: random.between(0, most) }, make)
  return {
    takings: many(2, () => random.pick<Taking>(['taken', 'taken', 'busy', 'lost', 'silent', 'rejected'])),
    looks: many(4, () =>
      random.pick<VideoState | 'away'>([
        { kind: 'waiting' },
        { kind: 'working', progress: random.between(0, 100) },
        { kind: 'working', progress: null },
        { kind: 'unknown' },
        'away',
        { kind: 'done' },
        { kind: 'failed', code: 'content_policy', detail: 'scripted' },
      ]),
    ),
    files: many(2, () => random.pick<Uint8Array | 'broken'>([testVideo(2), new Uint8Array(20), 'broken'])),
  }
}

/** Runs one seed in a house whose clock is `clock`; throws where anything is not as it must be. */
export async function raceVideos(
  house: VideoHouse,
  clock: JumpingClock,
  seed: number,
  tally: Map<string, number>,
): Promise<void> {
  const random = seeded(seed)
  const scripts = new Map<string, Script>()
  let isChaos = true
  const next = <T>(list: T[] | undefined) => (isChaos ? list?.shift() : undefined)
  const scriptFor = (job: ScriptedJob) => scripts.get(job.call.prompt)
  // The provider does not know which job it is asked about before it has taken one, so all jobs share the takings.
  const takings: Taking[] = []
  house.provider.taking = () => next(takings) ?? 'taken'
  house.provider.looking = (job) => {
    const look = next(scriptFor(job)?.looks) ?? { kind: 'done' }
    return look === 'away' ? null : look
  }
  house.provider.sending = (job) => {
    const file = next(scriptFor(job)?.files) ?? testVideo(job.call.seconds)
    return file === 'broken' ? null : file
  }

  const organizations = [await house.organization(1_000n * CENT), await house.organization(1_000n * CENT)] as const
  const made: Video[] = []
  for (let index = 0; index < JOBS; index += 1) {
    const script = scriptOf(random)
    const video = await house.create(random.pick(organizations), random.between(1, 5), `${seed}/${index}`)
    scripts.set(`${seed}/${index}`, script)
    takings.push(...script.takings)
    made.push(video)
  }
  const deaths = await chaos(house, clock, random, made)
  count(tally, 'deaths', deaths)
  isChaos = false
  await settle(house, clock, made)
  for (const video of made) count(tally, await check(house, video), 1)
}

function count(tally: Map<string, number>, what: string, times: number): void {
  tally.set(what, (tally.get(what) ?? 0) + times)
}

async function chaos(house: VideoHouse, clock: JumpingClock, random: Seeded, made: readonly Video[]): Promise<number> {
  const deadly = random.between(0, 6)
  const dies = () => random.percent(deadly)
  const processes = [new Mortal(house, dies), new Mortal(house, dies)]
  const acts: [atMs: number, act: () => unknown][] = []
  const front = house.process()
  for (const video of made) {
    if (!random.percent(40)) continue
    acts.push([random.between(0, CHAOS_MS), () => cancel(front, video.id, video.organizationId)])
  }
  for (let jumps = random.between(0, 3); jumps > 0; jumps -= 1) {
    const ahead = random.pick([MINUTE_MS, MINUTE_MS, MINUTE_MS, 2 * HOUR_MS, 25 * HOUR_MS])
    acts.push([random.between(0, CHAOS_MS), () => clock.jump(ahead)])
  }
  acts.push([CHAOS_MS / 2, () => processes.push(new Mortal(house, dies))])
  await Promise.all(
    acts.map(async ([atMs, act]) => {
      await new Promise((resolve) => setTimeout(resolve, atMs))
      await act()
    }),
  )
  await new Promise((resolve) => setTimeout(resolve, random.between(0, CHAOS_MS)))
  await Promise.all(processes.map(({ runner }) => runner.stop()))
  return processes.filter(({ isDead }) => isDead).length
}

/** One process that does not die, until nothing is left to do. */
async function settle(house: VideoHouse, clock: JumpingClock, made: readonly Video[]): Promise<void> {
  const dependencies = house.process()
  // In its last moment a clip's day may end: then there is a file to remove.
  do await workOn(house, dependencies, clock, made)
  while ((await countOpen(house)) > 0)
  await sweepFiles(dependencies, () => false)
}

async function workOn(
  house: VideoHouse,
  dependencies: VideoDependencies,
  clock: JumpingClock,
  made: readonly Video[],
): Promise<void> {
  const runner = runVideos(dependencies)
  try {
    for (let looks = 0; ; looks += 1) {
      const now = await Promise.all(made.map((video) => house.find(video)))
      const open = await countOpen(house)
      if (now.every(({ status }) => isTerminal(status)) && open === 0) break
      if (looks > 400) throw new Error(`not settled: ${now.map(({ status }) => status).join(', ')}; ${open} open`)
      // The jobs of a dead process are another's when its lease is over.
      if (looks % 10 === 9) clock.jump(MINUTE_MS)
      runner.wake()
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
  } finally {
    await runner.stop()
  }
}

/** Jobs for which something is still to be done, beside waiting for the end of a clip's day. */
async function countOpen(house: VideoHouse): Promise<number> {
  const open = await house.database.query("select from videos where due_at is not null and status <> 'completed'")
  return open.length
}

/** Gives how it ended. */
async function check(house: VideoHouse, { id, organizationId }: Video): Promise<string> {
  const video = await house.find({ id, organizationId })
  const [row] = await house.database.query<{ charges: bigint; holds: bigint }>(
    `select (select count(*) from charges where id = $1::uuid) as charges,
       (select count(*) from holds where id = $1::uuid) as holds`,
    [id],
  )
  const wasMade = video.completedAtMs !== null
  const files = (await house.files()).filter((name) => ofArtifact(name)?.id === id)
  const jobs = [...house.provider.jobs.values()].filter(({ call }) => call.attemptId === video.submission?.id)
  const seen = {
    status: video.status,
    charges: Number(row?.charges),
    holds: Number(row?.holds),
    events: await house.events(id),
    files,
    prompt: video.prompt,
    jobsAtMost1: jobs.length <= 1,
  }
  expect(seen).toEqual({
    status: video.status,
    charges: wasMade ? 1 : 0,
    holds: 0,
    events: wasMade ? ['video.completed'] : video.status === 'failed' ? ['video.failed'] : [],
    files: video.status === 'completed' && video.artifact !== null ? [video.artifact] : [],
    prompt: null,
    jobsAtMost1: true,
  })
  if (video.status === 'cancelled' && video.providerJob !== null) {
    expect(house.provider.jobs.get(video.providerJob)?.cancelled).toBe(true)
  }
  return `${video.status}${video.error === null ? '' : ` (${video.error})`}${wasMade && video.status === 'expired' ? ' after completion' : ''}`
}
