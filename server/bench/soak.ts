/** A million calls through Tollgate, with its memory every 50,000. README.md explains it. */
import { aimAt, drive } from './drive.ts'
import { atLeastOne, readOptions } from './options.ts'
import type { ClosedOutcome } from './plan.ts'
import { proportionalMegabytes, residentMegabytes } from './processes.ts'
import { runCommand } from './session.ts'

const USAGE = `usage: bun server/bench/soak.ts [--calls 1000000] [--connections 64] [--keys 400] [--limit-seconds 3600] [--keep]`
const REPORT_EVERY = 50_000
/** Memory counts as flat when the last fifth of the run uses at most this much more than the second fifth. */
const FLAT_GROWTH = 1.1
const MODEL = 'mock-4x0'

/** Mean of the samples between two shares of the run. */
function meanBetween(samples: readonly number[], from: number, to: number): number {
  const part = samples.slice(Math.floor(samples.length * from), Math.ceil(samples.length * to))
  return part.reduce((sum, value) => sum + value, 0) / part.length
}

const { text, flags } = readOptions(
  USAGE,
  { calls: '1000000', connections: '64', keys: '400', 'limit-seconds': '3600' },
  ['keep'],
)
const calls = atLeastOne('calls', text['calls'])
const limitSeconds = atLeastOne('limit-seconds', text['limit-seconds'])
const connections = atLeastOne('connections', text['connections'])
const keyCount = atLeastOne('keys', text['keys'])

await runCommand(limitSeconds, flags['keep'] === true, async (session) => {
  const [, tollgate] = await session.startTargets(['tollgate'], [MODEL], keyCount)
  if (tollgate === undefined) throw new Error('tollgate was not started')
  const chargedBefore = (await tollgate.chargedCalls?.()) ?? 0
  const gateway: number[] = []
  const sample = (line: string): void => {
    const { calls: done, perSecond } = JSON.parse(line) as { calls: number; perSecond?: number }
    if (perSecond !== undefined) return
    gateway.push(residentMegabytes(tollgate.gatewayPids()))
    const database = proportionalMegabytes(tollgate.databasePids()).toFixed(0)
    console.log(`${done} calls: gateway ${gateway.at(-1)?.toFixed(1)} MB, database ${database} MB`)
  }
  const plan = {
    mode: 'closed',
    aim: aimAt(tollgate, MODEL, false),
    connections,
    warmupSeconds: 0,
    seconds: limitSeconds,
    calls,
    reportEvery: Math.min(REPORT_EVERY, Math.max(1, Math.floor(calls / 10))),
  } as const
  const outcome = await drive<ClosedOutcome>(session.processes, tollgate, plan, sample)
  const early = meanBetween(gateway, 0.2, 0.4)
  const late = meanBetween(gateway, 0.8, 1)
  const charged = ((await tollgate.chargedCalls?.()) ?? 0) - chargedBefore
  const { perSecond, errors, firstError, cost } = outcome
  console.log(`${outcome.allCalls} answers, ${charged} charges, ${errors} errors${firstError ? `: ${firstError}` : ''}`)
  console.log(
    `${perSecond.toFixed(0)} requests/s; CPU s/1k: gateway ${cost.gatewayCpu.toFixed(3)}, database ${cost.databaseCpu.toFixed(3)}`,
  )
  const verdict = late <= early * FLAT_GROWTH ? 'flat' : 'GROWING'
  console.log(`memory: second fifth ${early.toFixed(1)} MB, last fifth ${late.toFixed(1)} MB: ${verdict}`)
})
