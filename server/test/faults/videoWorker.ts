/**
 * A process that works on videos until it kills itself at a step: `bun videoWorker.ts URL FOLDER STEP FINDS CANCEL`. Where
 * CANCEL is an organization's and a job's id, it cancels that job.
 */

import { systemClock } from '../../src/infra/clock.ts'
import { openClient } from '../../src/infra/postgres/client.ts'
import { runVideos } from '../../src/videos/run.ts'
import { cancel } from '../../src/videos/transitions.ts'
import { openTestArtifacts } from '../testArtifacts.ts'
import { videoModel, videoProcess } from '../videoProcess.ts'
import { tabledVideos } from './tabledVideos.ts'

const [url = '', folder = '', killStep = '', finds = '', organizationId = '', id = ''] = process.argv.slice(2)
const database = openClient(url, { maxConnections: 4, clock: systemClock })
const dependencies = videoProcess(
  {
    database,
    clock: systemClock,
    artifacts: openTestArtifacts(folder),
    work: tabledVideos(database, finds === 'finds'),
    model: videoModel({}),
    slot: 77,
  },
  {
    reached(step) {
      if (step === killStep) process.kill(process.pid, 'SIGKILL')
    },
  },
)
if (id === '') runVideos(dependencies)
else await cancel(dependencies, id, organizationId)
