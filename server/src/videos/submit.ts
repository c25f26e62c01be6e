import { ProviderFailure, type ProviderTarget } from '../providers/dialect/spec.ts'
import { asFailure } from '../routing/failure.ts'
import { askWithin, findJob, parseSize, workOf } from './asking.ts'
import type { VideoDependencies } from './job/dependencies.ts'
import { insist } from './job/insist.ts'
import { submissionAt } from './job/targets.ts'
import { LEASE_MS, type Video, type VideoError } from './job/video.ts'
import { slowDown, speedUp } from './queue/pace.ts'
import { takeBack } from './queue/takeBack.ts'
import { beginStep } from './step.ts'
import { noteKnown } from './store.ts'
import { accept, fail, putBack, retarget } from './transitions.ts'

/**
 * Asks the provider that was written down, and where that is sure not to have taken the job the others, each written
 * down before it is asked. A job that may have been taken is never sent again. `signal` is the process's: a job that
 * is cancelled or another's meanwhile is not left in the middle, since only the answer says what the provider has to
 * be told then.
 */
export async function submit(
  dependencies: VideoDependencies,
  taken: Video,
  targets: readonly ProviderTarget[],
  signal: AbortSignal,
): Promise<void> {
  let video: Video = taken
  for (const [index, target] of targets.entries()) {
    const sent = await send(dependencies, video, target, signal)
    if (sent !== 'not taken') return
    const next = targets[index + 1]
    if (next === undefined) break
    const submission = submissionAt(dependencies, next)
    const moved = await insist(dependencies, signal, () =>
      retarget(dependencies, video, submission, dependencies.clock.now() + LEASE_MS),
    )
    if (moved === null) return giveBack(dependencies, video, signal)
    video = moved
  }
  await refuse(dependencies, video, signal)
}

async function send(
  dependencies: VideoDependencies,
  video: Video,
  target: ProviderTarget,
  signal: AbortSignal,
): Promise<'done' | 'not taken'> {
  const { health, catalog, log, reached } = dependencies
  const { connectMs, firstByteMs } = catalog().deadlines
  const asking = health.ask(target)
  const ended = beginStep(dependencies, video, 'submit')
  let job: string
  try {
    await reached?.('taken')
    job = await askWithin(dependencies, firstByteMs, signal, (inner) => ask(target, video, inner, connectMs))
    asking.began()
    asking.ended('answered')
    ended('answered')
  } catch (error) {
    if (signal.aborted) {
      asking.ended('cancelled')
      ended('cancelled')
      throw signal.reason
    }
    const failure = asFailure(error)
    asking.ended(failure.kind)
    ended(failure.kind)
    log.warn(
      {
        provider: target.provider.name,
        model: target.model,
        video: video.id,
        kind: failure.kind,
        detail: failure.message,
      },
      'a provider did not take a video',
    )
    if (isSurelyNotTaken(failure)) return 'not taken'
    await settleUnknown(dependencies, video, failure, signal)
    return 'done'
  }
  await reached?.('submitted')
  await note(dependencies, video, job, signal)
  return 'done'
}

function ask(
  { provider, model }: ProviderTarget,
  video: Video,
  signal: AbortSignal,
  connectMs: number,
): Promise<string> {
  const { submission, prompt, seconds, size } = video
  if (provider.video === undefined)
    throw new ProviderFailure('misconfigured', 'it makes no videos', { mayFailOver: true })
  if (submission === null || prompt === null) throw new Error(`the video ${video.id} was taken up without its request`)
  const call = { model, prompt, seconds, size: parseSize(size), attemptId: submission.id }
  return provider.video.submit(call, signal, connectMs)
}

function isSurelyNotTaken({ kind, mayFailOver, mayAskAgain }: ProviderFailure): boolean {
  return mayFailOver || mayAskAgain || kind === 'misconfigured'
}

/** The provider has it: that is written down at once, also where the job is another's or over by now. */
async function note(dependencies: VideoDependencies, video: Video, job: string, signal: AbortSignal): Promise<void> {
  const { database, clock, reached } = dependencies
  const accepted = await insist(dependencies, signal, () => accept(dependencies, video, job, clock.now()))
  await reached?.('accepted')
  if (accepted !== null) return speedUp(dependencies, video.model)
  const { id, submission } = video
  if (submission === null) return
  await insist(dependencies, signal, () => noteKnown(database, id, submission.id, job, clock.now()))
}

const ERROR_OF: Partial<Record<ProviderFailure['kind'], VideoError>> = { timeout: 'upstream_timeout' }

/** Sent, and answered with something that does not say whether it was taken. Only a refusal is certain. */
async function settleUnknown(
  dependencies: VideoDependencies,
  video: Video,
  failure: ProviderFailure,
  signal: AbortSignal,
): Promise<void> {
  const isRefused = failure.kind === 'rejected' || failure.kind === 'context_length'
  const error = ERROR_OF[failure.kind] ?? 'upstream_error'
  if (isRefused) {
    await insist(dependencies, signal, () => fail(dependencies, video, error, false))
    return
  }
  await recover(dependencies, video, error, signal)
  // Others would fail likewise, all that wait, while a server behind a proxy is only started again.
  await slowDown(dependencies, video.model)
}

/**
 * A job that was sent, and of which nobody knows whether it arrived: it is looked for where the provider can be asked
 * that, and has failed otherwise. Rejects while the provider can't be asked now.
 */
async function recover(
  dependencies: VideoDependencies,
  video: Video,
  error: VideoError,
  signal: AbortSignal,
): Promise<void> {
  if (await findAgain(dependencies, video, signal)) return
  await insist(dependencies, signal, () => fail(dependencies, video, error, true))
}

/**
 * Looks for a job that may have been sent, and writes down where it is. False: the provider does not have the job, or
 * offers no way to ask for it.
 */
export async function findAgain(dependencies: VideoDependencies, video: Video, signal: AbortSignal): Promise<boolean> {
  const { submission } = video
  const work = workOf(dependencies, submission)
  const job = work === null || submission === null ? null : await findJob(dependencies, work, submission, signal)
  if (job !== null) await note(dependencies, video, job, signal)
  return job !== null
}

/** Nobody would take it: it waits for another turn, and so does everybody else who wants this model. */
async function refuse(dependencies: VideoDependencies, video: Video, signal: AbortSignal): Promise<void> {
  const moved = await insist(dependencies, signal, () => putBack(dependencies, video))
  await (moved === null ? giveBack(dependencies, video, signal) : slowDown(dependencies, video.model))
}

/** Another has taken it up meanwhile, and does not know what is certain here: that no provider has it. */
async function giveBack(dependencies: VideoDependencies, { submission }: Video, signal: AbortSignal): Promise<void> {
  if (submission !== null) await takeBack(dependencies, [submission.id], signal)
}
