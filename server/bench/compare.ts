/** The throughput of this checkout against another one's, in the same run. README.md explains it. */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { aimAt, type Cost, drive } from './drive.ts'
import { describeConditions, describeMachine } from './machine.ts'
import { atLeastOne, readOptions } from './options.ts'
import type { ClosedOutcome } from './plan.ts'
import { runCommand, type Session } from './session.ts'
import { median } from './statistics.ts'
import type { Target } from './target.ts'
import { OWN_CHECKOUT, programIn, startTollgate } from './targetTollgate.ts'

const USAGE = `usage: bun server/bench/compare.ts --against DIR [--rounds 7] [--seconds 4] [--connections 64] [--chunks 4] [--keys 400]
         [--keep]
  --against  another checkout of Tollgate, with its packages installed`

const WARMUP_SECONDS = 6
/** How an answer is asked for. */
const KINDS = ['whole', 'streamed'] as const
type Kind = (typeof KINDS)[number]

type Measured = ClosedOutcome & { readonly cost: Cost }
interface Pair {
  readonly own: Measured
  readonly other: Measured
}

const { text, flags } = readOptions(
  USAGE,
  { against: '', rounds: '7', seconds: '4', connections: '64', chunks: '4', keys: '400' },
  ['keep'],
)
const against = resolve(text['against'] ?? '')
if (text['against'] === '' || !existsSync(programIn(against))) {
  console.error(`--against must be the folder of a checkout of Tollgate, not '${text['against']}'`)
  process.exit(2)
}
const rounds = atLeastOne('rounds', text['rounds'])
const seconds = atLeastOne('seconds', text['seconds'])
const connections = atLeastOne('connections', text['connections'])
const keyCount = atLeastOne('keys', text['keys'])
const model = `mock-${atLeastOne('chunks', text['chunks'])}x0`
const limitSeconds = 200 + rounds * KINDS.length * 2 * (seconds + 20)

await runCommand(limitSeconds, flags['keep'] === true, async (session) => {
  console.log(describeMachine())
  console.log(`before: ${describeConditions(session.folder)}`)
  const [own, other] = await start(session)
  const charged = await Promise.all([own, other].map((target) => target.chargedCalls?.() ?? 0))
  let answers = [0, 0]
  const measure = async (target: Target, kind: Kind, forSeconds: number): Promise<Measured> => {
    const aim = aimAt(target, model, kind === 'streamed')
    const plan = { mode: 'closed', aim, connections, warmupSeconds: 0.5, seconds: forSeconds } as const
    const outcome = await drive<ClosedOutcome>(session.processes, target, plan)
    answers = answers.map((count, index) => count + (target === [own, other][index] ? outcome.allCalls : 0))
    if (outcome.errors > 0) throw new Error(`${target.name}: ${outcome.errors} errors, first: ${outcome.firstError}`)
    return outcome
  }
  for (const target of [own, other]) for (const kind of KINDS) await measure(target, kind, WARMUP_SECONDS / 2)
  const pairs: Record<Kind, Pair[]> = { whole: [], streamed: [] }
  for (let round = 0; round < rounds; round += 1) {
    for (const kind of KINDS) {
      // The side that begins changes from round to round: the load of the machine meanwhile then hits both alike.
      const first = await measure(round % 2 === 0 ? own : other, kind, seconds)
      const second = await measure(round % 2 === 0 ? other : own, kind, seconds)
      const pair = round % 2 === 0 ? { own: first, other: second } : { own: second, other: first }
      pairs[kind].push(pair)
      console.log(`round ${round + 1}, ${kind}: ${describe(pair)}`)
    }
  }
  console.log('')
  for (const kind of KINDS) console.log(summarize(kind, pairs[kind]))
  console.log(`after: ${describeConditions(session.folder)}`)
  for (const [index, target] of [own, other].entries()) {
    const charges = ((await target.chargedCalls?.()) ?? 0) - (charged[index] ?? 0)
    const verdict = charges === answers[index] ? 'each answer is charged once' : 'THESE DIFFER'
    console.log(`${target.name}: ${answers[index]} whole answers, ${charges} charges: ${verdict}`)
  }
})

async function start(session: Session): Promise<readonly [Target, Target]> {
  const { processes, folder } = session
  const [mock] = await session.startTargets([], [model], keyCount)
  if (mock === undefined) throw new Error('the mock provider was not started')
  const context = { processes, folder, mockPort: mock.port, models: [model], keyCount }
  const own = await startTollgate(context, { name: 'this', checkout: OWN_CHECKOUT })
  return [own, await startTollgate(context, { name: 'other', checkout: against })]
}

function describe({ own, other }: Pair): string {
  const ratio = (own.perSecond / other.perSecond).toFixed(3)
  return `${own.perSecond.toFixed(0)} requests/s here, ${other.perSecond.toFixed(0)} there, ratio ${ratio}`
}

function summarize(kind: Kind, pairs: readonly Pair[]): string {
  const spread = (values: readonly number[]) =>
    `${median(values).toFixed(3)} [${Math.min(...values).toFixed(3)}–${Math.max(...values).toFixed(3)}]`
  const cpu = (pick: (cost: Cost) => number) => spread(pairs.map(({ own, other }) => pick(own.cost) / pick(other.cost)))
  const perSecond = spread(pairs.map(({ own, other }) => own.perSecond / other.perSecond))
  const costs = `CPU an answer: gateway ${cpu((cost) => cost.gatewayCpu)}, database ${cpu((cost) => cost.databaseCpu)}`
  return `${kind}: requests/s here ÷ there ${perSecond}; ${costs}`
}
