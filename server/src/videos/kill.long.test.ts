/** SIGKILL at every step of submission, completion, failure and cancel; then another process takes over. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { TABLE, tabledVideos } from '../../test/faults/tabledVideos.ts'
import { openVideoHouse, type VideoHouse } from '../../test/videoHouse.ts'
import { JumpingClock } from '../../test/videoRaces.ts'
import type { Step } from './job/dependencies.ts'
import { isTerminal, type Video } from './job/video.ts'
import { runVideos } from './run.ts'
import { sweepFiles } from './sweep.ts'

const WORKER = join(import.meta.dirname, '../../test/faults/videoWorker.ts')
const CENT = 1_000_000n

/** Ahead of the wall's clock by what it is set forward: leases of the dead are over at once. */
const clock = new JumpingClock(Date.now(), 1)
let house: VideoHouse
beforeAll(async () => {
  house = await openVideoHouse(clock)
  await house.database.query(TABLE)
})
afterAll(() => house.close())

async function dieAt(step: Step, finds: boolean, video: Video, cancels: boolean): Promise<void> {
  const child = Bun.spawn(
    [
      process.execPath,
      WORKER,
      house.url,
      house.folder,
      step,
      finds ? 'finds' : '',
      ...(cancels ? [video.organizationId, video.id] : []),
    ],
    { stdout: 'inherit', stderr: 'inherit' },
  )
  await child.exited
  expect(child.signalCode).toBe('SIGKILL')
}

/** Another process, which does not die, until nothing is left to do. */
async function takeOver(finds: boolean, video: Video): Promise<Video> {
  const work = tabledVideos(house.database, finds)
  const client = { name: 'scripted', chat: () => Promise.reject(new Error('videos only')), video: work }
  const dependencies = house.process({
    providers: { targetsOf: () => [{ provider: client, model: 'film' }] },
    provider: () => client,
  })
  clock.jump(60_000)
  const runner = runVideos(dependencies)
  try {
    for (let looks = 0; looks < 1_000; looks += 1) {
      const found = await house.find(video)
      const [row] = await house.database.query<{ due: boolean }>(
        'select due_at is not null as due from videos where id = $1::uuid',
        [video.id],
      )
      if (isTerminal(found.status) && (found.status === 'completed' || row?.due === false)) return found
      runner.wake()
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    throw new Error('it never ended')
  } finally {
    await runner.stop()
    await sweepFiles(dependencies, () => false)
  }
}

interface Expected {
  readonly status: string
  readonly error?: string
}
const COMPLETED = { status: 'completed' }
const LOST = { status: 'failed', error: 'internal_error' }
const FAILED = { status: 'failed', error: 'upstream_error' }
const CANCELLED = { status: 'cancelled' }

/** The step, the prompt, and what comes of it where jobs can be looked for, and where not. */
const rows: [Step, string, found: Expected, notFound: Expected][] = [
  ['taken', 'works', LOST, LOST],
  ['submitted', 'works', COMPLETED, LOST],
  ['accepted', 'works', COMPLETED, COMPLETED],
  ['looked', 'works', COMPLETED, COMPLETED],
  ['staged', 'works', COMPLETED, COMPLETED],
  ['measured', 'works', COMPLETED, COMPLETED],
  ['completing', 'works', COMPLETED, COMPLETED],
  ['completed', 'works', COMPLETED, COMPLETED],
  ['failing', 'fails', FAILED, FAILED],
  ['failed', 'fails', FAILED, FAILED],
  ['cancelling', 'cancelled', COMPLETED, COMPLETED],
  ['cancelled', 'cancelled', CANCELLED, CANCELLED],
]

describe.each([true, false])('a provider that can be asked for our names: %p', (finds) => {
  test.each(rows)(
    'killed when %s (%s)',
    async (step, prompt, found, notFound) => {
      const organization = await house.organization(100n * CENT)
      const video = await house.create(organization, 4, prompt)
      await dieAt(step, finds, video, prompt === 'cancelled')
      const ended = await takeOver(finds, video)
      expect(ended).toMatchObject(finds ? found : notFound)
      const made = ended.status === 'completed'
      const asked = await house.database.query('select id from test_provider where attempt = $1::uuid', [
        ended.submission?.id ?? '00000000-0000-0000-0000-000000000000',
      ])
      expect(asked.length).toBeLessThanOrEqual(1)
      expect(await house.spent(organization)).toEqual({ microcents: made ? 30n * CENT : 0n, charges: made ? 1 : 0 })
      const [account] = await house.database.query<{ held: bigint }>(
        'select held_microcents as held from accounts where organization_id = $1::uuid',
        [organization],
      )
      expect(account?.held).toBe(0n)
      expect(await house.events(video.id)).toEqual(
        made ? ['video.completed'] : ended.status === 'failed' ? ['video.failed'] : [],
      )
      expect((await house.files()).filter((name) => name.includes(video.id))).toEqual(
        ended.artifact === null ? [] : [ended.artifact],
      )
      expect(await house.disagreements()).toEqual([])
    },
    60_000,
  )
})
