import type { Artifacts } from '../src/infra/artifacts.ts'
import { ProviderFailure, type VideoCall, type VideoState, type VideoWork } from '../src/providers/dialect/spec.ts'

/** A job of the scripted provider. */
export interface ScriptedJob {
  readonly id: string
  readonly call: VideoCall
  state: VideoState
  cancelled: boolean
}

/** The outcome of a request to take a job. */
export type Taking =
  | 'taken'
  /** It says that it can't now. */
  | 'busy'
  /** It is taken, and the answer is lost. */
  | 'lost'
  /** It never arrives, and nobody knows. */
  | 'silent'
  | 'rejected'

/** A provider that makes videos as a test tells it. {@link measureTestVideo} reads its files. */
export interface ScriptedVideos extends VideoWork {
  readonly jobs: Map<string, ScriptedJob>
  /** For each request that arrives; `taken` unless said. */
  taking: () => Taking
  /** Returns the state of a job; null: the provider can't be asked. */
  looking: (job: ScriptedJob) => VideoState | null
  /** The bytes of a finished job; null: they break off. */
  sending: (job: ScriptedJob) => Uint8Array | null
  /** How often it was asked to take something. */
  asked: number
}

const away = () => new ProviderFailure('unavailable', 'the scripted provider is away')

export function scriptVideos(options: { readonly finds?: boolean } = {}): ScriptedVideos {
  const jobs = new Map<string, ScriptedJob>()
  const take = (call: VideoCall) => {
    const job: ScriptedJob = { id: `job-${jobs.size + 1}`, call, state: { kind: 'done' }, cancelled: false }
    jobs.set(job.id, job)
    return job.id
  }
  const work: ScriptedVideos = {
    jobs,
    asked: 0,
    taking: () => 'taken',
    looking: (job) => job.state,
    sending: (job) => testVideo(job.call.seconds),
    async submit(call) {
      work.asked += 1
      switch (work.taking()) {
        case 'taken':
          return take(call)
        case 'busy':
          throw new ProviderFailure('unavailable', 'busy', { mayFailOver: true, mayAskAgain: true })
        case 'rejected':
          throw new ProviderFailure('rejected', 'it does not like it')
        case 'lost':
          take(call)
          throw new ProviderFailure('timeout', 'no answer')
        case 'silent':
          throw new ProviderFailure('timeout', 'no answer')
      }
    },
    async look(id) {
      const job = jobs.get(id)
      const state = job === undefined ? ({ kind: 'unknown' } as const) : work.looking(job)
      if (state === null) throw away()
      return state
    },
    async download(id) {
      const job = jobs.get(id)
      if (job === undefined) throw away()
      return pieces(work.sending(job))
    },
    async cancel(id) {
      const job = jobs.get(id)
      if (job !== undefined) job.cancelled = true
    },
  }
  if (options.finds === true) {
    work.find = async (attemptId) => [...jobs.values()].find(({ call }) => call.attemptId === attemptId)?.id ?? null
  }
  return work
}

async function* pieces(bytes: Uint8Array | null) {
  yield (bytes ?? testVideo(1)).slice(0, 4)
  if (bytes === null) throw away()
  yield bytes.slice(4)
}

/** Returns bytes that stand for a file of so many seconds in tests that are not about files. */
export function testVideo(seconds: number): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`mp4 of ${seconds} seconds`)
}

/** The seconds that a test's file says it has. */
export async function measureTestVideo(artifacts: Artifacts, name: string, bytes: number): Promise<number> {
  const stream = await artifacts.read(name, 0, bytes - 1)
  const seconds = /^mp4 of ([\d.]+) seconds$/.exec(await new Response(stream).text())?.[1]
  if (seconds === undefined) throw new Error('this is no mp4')
  return Number(seconds)
}
