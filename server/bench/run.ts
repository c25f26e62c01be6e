/** `npm run bench`: interleaved rounds over mock, nginx, Portkey and Tollgate, and the table. README.md explains it. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describeConditions, describeMachine } from './machine.ts'
import { atLeastOne, readOptions, targetNames } from './options.ts'
import { table } from './report.ts'
import { type RoundOptions, type RoundResult, runRound, warmUp } from './round.ts'
import { checkStallIsSeen } from './selfCheck.ts'
import { runCommand, type Session, TARGET_NAMES } from './session.ts'
import { settledCharges, type Target } from './target.ts'

/** Left out are the bare relay, which answers as a stream alone, and the rival that bills: its program has to be brought. */
const DEFAULT_NAMES = ['mock', 'nginx', 'portkey', 'tollgate']
const USAGE = `usage: npm run bench -- [--rounds 5] [--seconds 5] [--connections 64] [--chunks 4] [--keys 400]
         [--rate CALLS_PER_SECOND] [--only ${DEFAULT_NAMES.join(',')}] [--quick] [--keep]
  --only   also takes one-hub and one-hub-batched, whose program has to be on the PATH
  --quick  one round of 2 s a measurement      --keep  leave logs and data behind
  --rate   of the open loop, for every target; left out: half of what each did in the closed loop`

interface Run {
  readonly rounds: number
  readonly keyCount: number
  readonly round: RoundOptions
}

async function measure(session: Session, run: Run, targets: readonly Target[]): Promise<RoundResult[][]> {
  const rounds: RoundResult[][] = []
  for (let index = 0; index < run.rounds; index++) {
    // Each round starts with another target, so that none always runs on a machine that the same one has warmed.
    const turn = index % targets.length
    const results: RoundResult[] = []
    for (const target of [...targets.slice(turn), ...targets.slice(0, turn)]) {
      const result = await runRound(session.processes, target, run.round)
      results.push(result)
      const errors = result.errors > 0 ? `, ${result.errors} ERRORS, first: ${result.firstError}` : ''
      console.error(
        `round ${index + 1}/${run.rounds} ${target.name}: ${result.perSecond.toFixed(0)} requests/s${errors}`,
      )
    }
    rounds.push(targets.map((target) => results.find((result) => result.target === target.name)).filter(isPresent))
  }
  return rounds
}

function isPresent<T>(value: T | undefined): value is T {
  return value !== undefined
}

/** Compares each target's books with what the driver was answered; a line for each target that keeps books. */
async function auditCharges(
  targets: readonly Target[],
  before: ReadonlyMap<string, number>,
  rounds: readonly (readonly RoundResult[])[],
): Promise<string[]> {
  const lines: string[] = []
  for (const target of targets) {
    if (target.chargedCalls === undefined) continue
    const charged = (await settledCharges(target, target.chargesWithinMs ?? 0)) - (before.get(target.name) ?? 0)
    const results = rounds.flatMap((round) => round.filter((result) => result.target === target.name))
    const answers = results.reduce((sum, result) => sum + result.answers, 0)
    const verdict = charged === answers ? 'each answer is charged once' : 'THESE DIFFER'
    lines.push(`${target.name}: ${answers} whole answers, ${charged} charges: ${verdict}`)
  }
  return lines
}

async function chargesOf(targets: readonly Target[]): Promise<Map<string, number>> {
  const charges = new Map<string, number>()
  for (const target of targets) {
    if (target.chargedCalls !== undefined) {
      charges.set(target.name, await settledCharges(target, target.chargesWithinMs ?? 0))
    }
  }
  return charges
}

const { text, flags } = readOptions(
  USAGE,
  { rounds: '5', seconds: '5', connections: '64', chunks: '4', keys: '400', rate: '', only: DEFAULT_NAMES.join(',') },
  ['quick', 'keep'],
)
const chunks = atLeastOne('chunks', text['chunks'])
const run: Run = {
  rounds: flags['quick'] ? 1 : atLeastOne('rounds', text['rounds']),
  keyCount: atLeastOne('keys', text['keys']),
  round: {
    seconds: flags['quick'] ? 2 : atLeastOne('seconds', text['seconds']),
    connections: atLeastOne('connections', text['connections']),
    wholeModel: `mock-${chunks}x0`,
    streamModel: `mock-${chunks}x2`,
    openRate: text['rate'] === '' ? undefined : atLeastOne('rate', text['rate']),
  },
}
const names = targetNames(text['only'])
const limitSeconds = 300 + run.rounds * TARGET_NAMES.length * 4 * (run.round.seconds + 20)

await runCommand(limitSeconds, flags['keep'] === true, async (session) => {
  const before = describeConditions(session.folder)
  const stall = await checkStallIsSeen(session.processes, session.folder)
  const verdict = stall.seen ? 'seen' : `NOT SEEN as it should be (${stall.detail}): distrust the open-loop figures`
  const check = `Driver check: a stall of 2 s reads p99.9 = ${stall.p999Ms.toFixed(0)} ms, ${verdict}.`
  console.error(check)
  const started = await session.startTargets(names, [run.round.wholeModel, run.round.streamModel], run.keyCount)
  const targets = started.filter((target) => names.includes(target.name as (typeof names)[number]))
  for (const target of targets) await warmUp(session.processes, target, run.round, flags['quick'] ? 2 : 6)
  const chargesBefore = await chargesOf(targets)
  const rounds = await measure(session, run, targets)
  const after = describeConditions(session.folder)
  const machine = describeMachine()
  const conditions = `before: ${before}; after: ${after}`
  const settings = `${run.rounds} rounds of ${run.round.seconds} s a measurement, ${run.round.connections} connections, answers of ${chunks} chunks, ${run.keyCount} key(s)`
  const lines = [
    machine,
    ...targets.flatMap(({ name, version }) => (version === undefined ? [] : [`${name}: ${version}`])),
    conditions,
    settings,
    check,
    '',
    table(rounds),
    '',
    ...(await auditCharges(targets, chargesBefore, rounds)),
  ]
  console.log(lines.join('\n'))
  const results = join(import.meta.dir, 'results')
  await mkdir(results, { recursive: true })
  const file = join(results, `${new Date().toISOString().replace(/[:.]/g, '-')}.json`)
  await writeFile(file, JSON.stringify({ machine, conditions, settings, check, rounds }, null, 2))
  console.error(`Written to ${file}`)
})
