/** A thousand streams open at once: do all complete, how late are their chunks, how much memory. README.md explains it. */
import { aimAt, drive } from './drive.ts'
import { atLeastOne, readOptions, targetNames } from './options.ts'
import type { StreamsOutcome } from './plan.ts'
import { residentMegabytes } from './processes.ts'
import { runCommand, type Session } from './session.ts'
import type { Target } from './target.ts'

const USAGE = `usage: bun server/bench/streams.ts [--streams 1000] [--chunks 100] [--pace-ms 50] [--ramp-ms 1000]
         [--rounds 2] [--keys 400] [--only mock,nginx,relay,portkey,tollgate] [--keep]`
const SAMPLE_MS = 250

async function measure(
  session: Session,
  target: Target,
  model: string,
  streams: number,
  rampMs: number,
): Promise<string> {
  const before = residentMegabytes(target.gatewayPids())
  let peak = before
  const sampler = setInterval(() => {
    peak = Math.max(peak, residentMegabytes(target.gatewayPids()))
  }, SAMPLE_MS)
  const [, chunks, paceMs] = /^mock-(\d+)x(\d+)$/.exec(model) ?? []
  const idealSeconds = (rampMs + Number(chunks) * Number(paceMs)) / 1000
  const outcome = await drive<StreamsOutcome>(session.processes, target, {
    mode: 'streams',
    aim: aimAt(target, model, true),
    connections: streams,
    rampMs,
    repeatSeconds: 0,
    deadlineSeconds: idealSeconds * 3 + 20,
  }).finally(() => clearInterval(sampler))
  const { calls, errors, firstError, latenessMs: late, firstTokenMs: first, cost } = outcome
  const figures = [
    `${calls} of ${streams}`,
    `${late.p50.toFixed(1)} / ${late.p99.toFixed(1)} / ${late.max.toFixed(1)}`,
    `${first.p50.toFixed(1)} / ${first.p99.toFixed(1)}`,
    `${before.toFixed(0)} → ${peak.toFixed(0)}`,
    ((cost.gatewayCpu * 1_000) / Number(chunks)).toFixed(1),
    cost.databaseCpu.toFixed(2),
  ]
  if (errors > 0) console.error(`${target.name}: ${errors} errors, first: ${firstError}`)
  return `| ${target.name} | ${figures.join(' | ')} |`
}

const { text, flags } = readOptions(
  USAGE,
  {
    streams: '1000',
    chunks: '100',
    'pace-ms': '50',
    'ramp-ms': '1000',
    rounds: '2',
    keys: '400',
    only: 'mock,tollgate',
  },
  ['keep'],
)
const model = `mock-${atLeastOne('chunks', text['chunks'])}x${atLeastOne('pace-ms', text['pace-ms'])}`
const streams = atLeastOne('streams', text['streams'])
const rampMs = atLeastOne('ramp-ms', text['ramp-ms'])
const rounds = atLeastOne('rounds', text['rounds'])
const names = targetNames(text['only'])

await runCommand(900, flags['keep'] === true, async (session) => {
  const started = await session.startTargets(names, [model], atLeastOne('keys', text['keys']))
  console.log(
    '| | complete | chunk late ms p50 / p99 / max | first token ms p50 / p99 | resident MB before → peak | gateway CPU µs a chunk | database CPU s/1k streams |',
  )
  console.log('|---|---|---|---|---|---|---|')
  for (const target of started) {
    if (!names.some((name) => name === target.name)) continue
    for (let round = 0; round < rounds; round++) console.log(await measure(session, target, model, streams, rampMs))
  }
})
