/** Whole answers against charges after a SIGKILL of the gateway under load. README.md explains it. */
import { checkLossIsSeen } from './crashCheck.ts'
import { type CrashResult, lackingCharges, runCrash } from './crashRound.ts'
import { describeConditions, describeMachine } from './machine.ts'
import { atLeastOne, readOptions, targetNames } from './options.ts'
import { runCommand } from './session.ts'
import { settledCharges } from './target.ts'

const USAGE = `usage: bun server/bench/crash.ts [--rounds 5] [--seconds 10] [--connections 64] [--chunks 4] [--keys 400]
         [--quiet-seconds 8] [--only tollgate] [--keep]
  --seconds        of load before the first round's kill; the others' are spread over the 5 s after that
  --quiet-seconds  the books are read once they have not changed for this long
  --only           of tollgate, one-hub and one-hub-batched, separated by commas; one-hub has to be on the PATH`

/** Kills are spread over the distance of one-hub's batches: some come soon after one is written, some just before. */
const SPREAD_SECONDS = 5
const KILLABLE_NAMES = ['tollgate', 'one-hub', 'one-hub-batched']

const { text, flags } = readOptions(
  USAGE,
  { rounds: '5', seconds: '10', connections: '64', chunks: '4', keys: '400', 'quiet-seconds': '8', only: 'tollgate' },
  ['keep'],
)
const names = targetNames(text['only'])
const unfit = names.find((name) => !KILLABLE_NAMES.includes(name))
if (unfit !== undefined || names.length === 0) {
  console.error(`--only takes ${KILLABLE_NAMES.join(', ')}, separated by commas${unfit ? `; not '${unfit}'` : ''}`)
  process.exit(2)
}
const rounds = atLeastOne('rounds', text['rounds'])
const connections = atLeastOne('connections', text['connections'])
if (connections < 2) {
  console.error('--connections must be at least 2: one for whole answers and one for streamed ones')
  process.exit(2)
}
const keyCount = atLeastOne('keys', text['keys'])
const options = {
  connections,
  seconds: atLeastOne('seconds', text['seconds']),
  model: `mock-${atLeastOne('chunks', text['chunks'])}x0`,
  quietMs: atLeastOne('quiet-seconds', text['quiet-seconds']) * 1000,
}
const limitSeconds = 300 + (rounds + 1) * names.length * (options.seconds + options.quietMs / 1000 + 180)

await runCommand(limitSeconds, flags['keep'] === true, async (session) => {
  console.log(describeMachine())
  console.log(`before: ${describeConditions(session.folder)}`)
  const check = await checkLossIsSeen(session.processes, session.folder)
  if (!check.seen) throw new Error(`this bench doesn't see losses as it should: ${check.detail}`)
  console.log(`Check: ${check.detail}`)
  const started = await session.startTargets(names, [options.model], keyCount)
  const targets = started.filter((target) => target.killable !== undefined)
  for (const { name, version } of targets) if (version !== undefined) console.log(`${name}: ${version}`)
  for (const target of targets) await settledCharges(target, options.quietMs)
  const results: CrashResult[] = []
  // Round 0 is without a kill: what is lacking there is not the kill's doing.
  for (let round = 0; round <= rounds; round++) {
    const seconds = options.seconds + (Math.max(0, round - 1) * SPREAD_SECONDS) / rounds
    for (const target of targets) {
      const result = await runCrash(session.processes, target, { ...options, seconds, kill: round > 0 })
      results.push(result)
      console.error(`${round === 0 ? 'without a kill' : `round ${round}/${rounds}`}, ${describe(result)}`)
    }
  }
  console.log(`after: ${describeConditions(session.folder)}`)
  const load = `${connections} connections, half of them streaming, answers of ${text['chunks']} chunks`
  console.log(`${rounds} kills after ${options.seconds} to ${options.seconds + SPREAD_SECONDS} s of load, ${load}`)
  console.log('')
  console.log(table(targets.map(({ name }) => results.filter((result) => result.target === name))))
})

function describe(result: CrashResult): string {
  const { target, answers, charges, seconds } = result
  return `${target}: ${(answers / seconds).toFixed(0)} answers/s, ${answers} whole answers, ${charges} charges, ${share([result])} of answers without one`
}

/** One line a target: the rounds with a kill summed up, and the one without beside them. */
function table(targets: readonly (readonly CrashResult[])[]): string {
  const titles =
    '| | answers/s | whole answers | charges | answers without a charge | each round | seconds of load that these are | calls in its log | without a charge, no kill |'
  const lines = targets.map((results) => {
    const killed = results.filter((result) => result.killed)
    const sum = (pick: (result: CrashResult) => number) => killed.reduce((total, result) => total + pick(result), 0)
    const answers = sum((result) => result.answers)
    const perSecond = answers / sum((result) => result.seconds)
    const figures = [
      perSecond.toFixed(0),
      answers,
      sum((result) => result.charges),
      `${sum(lackingCharges)} (${share(killed)})`,
      killed.map((result) => share([result])).join(', '),
      (sum(lackingCharges) / killed.length / perSecond).toFixed(1),
      killed.some((result) => result.logged === undefined) ? '–' : sum((result) => result.logged ?? 0),
      share(results.filter((result) => !result.killed)),
    ]
    return `| ${results[0]?.target} | ${figures.join(' | ')} |`
  })
  return [titles, `|${'---|'.repeat(9)}`, ...lines].join('\n')
}

function share(results: readonly CrashResult[]): string {
  const answers = results.reduce((sum, result) => sum + result.answers, 0)
  const lacking = results.reduce((sum, result) => sum + lackingCharges(result), 0)
  return `${((100 * lacking) / Math.max(1, answers)).toFixed(1)} %`
}
