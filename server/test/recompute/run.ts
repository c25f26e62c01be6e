/** Random load recomputed, by hand: `bun server/test/recompute/run.ts --calls 1000000 [--processes 2] [--seed 1]`. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { runOnce } from './recompute.ts'

const { values } = parseArgs({
  options: {
    calls: { type: 'string', default: '20000' },
    processes: { type: 'string', default: '1' },
    seed: { type: 'string', default: '1' },
    open: { type: 'string', default: '64' },
    /** Leaves the files of the run where they are. */
    keep: { type: 'boolean', default: false },
  },
})
const folder = await mkdtemp(join(tmpdir(), 'tollgate-recompute-'))
const startedMs = performance.now()
const report = (line: string) => {
  const { rss } = process.memoryUsage()
  const seconds = ((performance.now() - startedMs) / 1_000).toFixed(0)
  console.log(`${seconds} s: ${line} (driver ${(rss / 1e6).toFixed(0)} MB)`)
}
const leaving = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => leaving.abort(new Error(`stopped by ${signal}`)))
let isGood = false
try {
  const { load, recomputed, agrees } = await runOnce({
    seed: Number(values.seed),
    calls: Number(values.calls),
    processes: Number(values.processes),
    atOnce: Number(values.open),
    folder,
    report,
    signal: leaving.signal,
  })
  const { problems, ...counts } = recomputed
  console.log(JSON.stringify({ ...load, ...counts, verified: agrees }, null, 1))
  for (const problem of problems) console.log(problem)
  isGood = recomputed.found === 0 && agrees
  console.log(isGood ? 'Every charge is right to the micro-cent.' : `${recomputed.found} problems`)
} finally {
  if (values.keep) console.log(`the files are in ${folder}`)
  else await rm(folder, { recursive: true, force: true })
}
process.exit(isGood ? 0 : 1)
