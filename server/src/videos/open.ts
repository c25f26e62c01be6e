import type { FixedSettings } from '../catalog/settings.ts'
import { type ArtifactPlace, openArtifacts } from '../infra/artifacts/open.ts'
import type { Queryable } from '../infra/postgres/database.ts'
import { removeLeftClips } from '../infra/transcode.ts'
import { inWorkGauge } from '../jobs/gauge.ts'
import { DAY_MS, MINUTE_MS } from '../lib/time.ts'
import { dropOldVideos } from './dropOld.ts'
import type { VideoDependencies } from './job/dependencies.ts'
import { videoRoutes } from './routes.ts'
import { runVideos } from './run.ts'
import { sweepFiles } from './sweep.ts'

/** All files of a day are listed for a sweep, which costs money in an object store. */
const FILES_MS = 15 * MINUTE_MS

type FromSettings = 'cancellationsPerHour' | 'failuresPerHour' | 'queuedMost' | 'lowBalanceMicrocents'

export interface VideosOptions extends Omit<VideoDependencies, 'artifacts' | FromSettings> {
  /** For reads whose clients wait. */
  readonly reads: Queryable
  /** Where files are kept. */
  readonly place: ArtifactPlace
  readonly dataDirectory: string
  readonly settings: Pick<
    FixedSettings,
    | 'videoCancellationsPerHour'
    | 'videoFailuresPerHour'
    | 'queuedVideosMost'
    | 'videoRetentionDays'
    | 'lowBalanceMicrocents'
  >
}

/** Opens the room of videos, and begins to work on jobs. */
export function openVideos({ place, dataDirectory, settings, reads, ...options }: VideosOptions) {
  const { clock, random } = options
  const dependencies: VideoDependencies = {
    ...options,
    artifacts: openArtifacts(place, 'videos', dataDirectory, { clock, random }),
    cancellationsPerHour: settings.videoCancellationsPerHour,
    failuresPerHour: settings.videoFailuresPerHour,
    queuedMost: settings.queuedVideosMost,
    lowBalanceMicrocents: settings.lowBalanceMicrocents,
  }
  const runner = runVideos(dependencies)
  return {
    routes: videoRoutes({ videos: { ...dependencies, wake: runner.wake }, reads }),
    periodicTasks: [
      {
        name: 'files of videos',
        everyMs: FILES_MS,
        run: (isStopping: () => boolean) => sweepFiles(dependencies, isStopping),
      },
      {
        name: 'old videos',
        everyMs: MINUTE_MS,
        run: (isStopping: () => boolean) => dropOldVideos(dependencies, settings.videoRetentionDays, isStopping),
      },
      {
        // No job takes its clip for longer: its model's deadline is a day at most.
        name: 'clips in the making',
        everyMs: FILES_MS,
        run: () => removeLeftClips(2 * DAY_MS),
      },
    ],
    metrics: [inWorkGauge(runner)],
    stop: () => runner.stop(),
  }
}
