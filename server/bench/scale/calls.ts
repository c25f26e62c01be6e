/** The cost of a hot call (one organization again and again), a warm one (organizations that have called before) and a cold one. */

import { CallFigures, callInTurn } from './ask.ts'
import type { Scale } from './scale.ts'
import type { Side } from './side.ts'

/** Calls after a start that are not counted, while the compiler is at work. */
const WARM_UP_CALLS = 800
/** Each turn has as many cold calls as the small database has organizations to spare; more would not be cold there. */
const COLD_CALLS = 45
/** Organizations that warm calls go to in turn. */
const WARM_MOST = 2_000
/** Of the crowd, which is to call soon. */
const CROWD_CONNECTIONS = 32

/** Organization 1 makes hot calls, those up to here the others of a warm-up. */
const KNOWN = 20

type Kind = 'hot' | 'warm' | 'cold'

export async function measureCalls(scale: Scale): Promise<void> {
  const figures = scale.sides.map(() => ({ hot: new CallFigures(), warm: new CallFigures(), cold: new CallFigures() }))
  for (let round = 0; round < scale.rounds; round += 1) {
    for (const side of scale.sides) {
      await side.stop()
      await side.start()
      await callInTurn(side.target(), numbers(1, KNOWN, WARM_UP_CALLS), new CallFigures())
    }
    await byTurns(scale, round, (side) => ask(side, 'cold', coldOnes(side, round)))
    for (const side of scale.sides) await callOfCrowd(side, scale.crowd)
    for (let part = 0; part < 2; part += 1) {
      await byTurns(scale, round + part, (side) => ask(side, 'warm', warmOnes(side, scale, round * 2 + part)))
      await byTurns(scale, round + part, (side) => ask(side, 'hot', numbers(1, 1, scale.calls)))
    }
  }
  report(scale, figures)

  async function ask(side: Side, kind: Kind, organizations: readonly number[]): Promise<void> {
    const own = figures[scale.sides.indexOf(side)]?.[kind]
    if (own !== undefined) await callInTurn(side.target(), organizations, own)
  }
}

/** Has so many organizations call once, at most all there are; the failed ones must be none. */
export async function callOfCrowd(side: Side, crowd: number): Promise<void> {
  const figures = new CallFigures()
  const count = Math.min(crowd, side.size.organizations)
  await callInTurn(side.target(), numbers(1, count, count), figures, CROWD_CONNECTIONS)
  if (figures.failed > 0)
    console.log(`  ${figures.failed} of ${count} calls of the crowd failed; the first: ${figures.firstError}`)
}

/** Does the same for each side, one after the other; which one begins changes from round to round. */
async function byTurns({ sides }: Scale, round: number, work: (side: Side) => Promise<void>): Promise<void> {
  for (const side of round % 2 === 0 ? sides : sides.toReversed()) await work(side)
}

/** Organizations that have not called since the gateway was started. Of the large database others in each round, from all over it. */
function coldOnes(side: Side, round: number): number[] {
  const free = side.size.organizations - KNOWN
  const count = Math.min(COLD_CALLS, free)
  return Array.from({ length: count }, (_, index) => {
    return KNOWN + 1 + ((Math.floor((index * free) / count) + round) % free)
  })
}

/** The last ones of the crowd, in turn: a large crowd's first ones may have given back what they had before its last ones call. */
function warmOnes(side: Side, scale: Scale, part: number): number[] {
  const last = Math.min(scale.crowd, side.size.organizations)
  const count = Math.min(WARM_MOST, last)
  return numbers(last - count + 1, count, scale.calls, part * scale.calls)
}

/** So many numbers from `first` on, `width` different ones in turn. */
function numbers(first: number, width: number, count: number, offset = 0): number[] {
  return Array.from({ length: count }, (_, index) => first + ((offset + index) % width))
}

function report({ table }: Scale, [small, large]: readonly Record<Kind, CallFigures>[]): void {
  if (small === undefined || large === undefined) return
  for (const kind of ['hot', 'warm', 'cold'] as const) {
    const both = [small[kind], large[kind]] as const
    const row = (measure: string, unit: string, of: (figures: CallFigures) => number, compared?: 'difference') =>
      table.add({
        measure: `${kind} call: ${measure}`,
        small: of(both[0]),
        large: of(both[1]),
        unit,
        ...(compared === undefined ? {} : { compared }),
      })
    row('median', 'ms', ({ samples }) => samples.percentiles().p50)
    row('p99', 'ms', ({ samples }) => samples.percentiles().p99)
    row('processor time of the gateway', 'ms', (each) => (1_000 * each.gatewaySeconds) / each.calls)
    row('processor time of PostgreSQL', 'ms', (each) => (1_000 * each.databaseSeconds) / each.calls)
    row('answers other than 200', '', ({ failed }) => failed, 'difference')
    table.note(`${kind} calls: ${both[0].calls} to the small database, ${both[1].calls} to the large one`)
    const error = both[0].firstError ?? both[1].firstError
    if (error !== null) table.note(`the first failed ${kind} call: ${error}`)
  }
}
