/**
 * A process that takes up one job of the kind `test` and never ends it: `bun jobProcess.ts URL`. It says `working` once it
 * has begun, and is there until it is killed.
 */

import { z } from 'zod'
import { systemClock } from '../src/infra/clock.ts'
import { openClient } from '../src/infra/postgres/client.ts'
import { systemRandom } from '../src/infra/random.ts'
import { jobHandler } from '../src/jobs/handler.ts'
import { createJobs } from '../src/jobs/runJobs.ts'
import { SILENCE } from './silence.ts'

const [url = ''] = process.argv.slice(2)
const stuck = jobHandler(
  { name: 'test', payload: z.unknown() },
  {
    atOnce: 1,
    timeoutMs: 3_600_000,
    retryMs: [1_000],
    advice: 'nothing',
    handle: () => {
      process.stdout.write('working\n')
      return new Promise(() => {})
    },
  },
)
createJobs({
  database: openClient(url, { maxConnections: 2, clock: systemClock }),
  clock: systemClock,
  random: systemRandom(),
  log: SILENCE,
  jobHandlers: [stuck],
}).start()
