/** Turns rounds into the table that is printed. Everything is a median over rounds, with its spread in brackets. */
import type { RoundResult } from './round.ts'
import { median } from './statistics.ts'

export interface Column {
  readonly title: string
  /** One value a round; undefined where there is nothing to compare with. */
  value(round: RoundResult, same: ReadonlyMap<string, RoundResult>): number | undefined
  readonly digits: number
}

/** `same` holds the results of the same round by target: ratios and differences are taken within a round. */
const COLUMNS: readonly Column[] = [
  { title: 'requests/s', digits: 0, value: (round) => round.perSecond },
  { title: '÷ portkey', digits: 2, value: (round, same) => ratio(round.perSecond, same.get('portkey')?.perSecond) },
  { title: '÷ nginx', digits: 3, value: (round, same) => ratio(round.perSecond, same.get('nginx')?.perSecond) },
  {
    title: '÷ one-hub',
    digits: 1,
    value: (round, same) => ratio(round.perSecond, same.get('one-hub')?.perSecond),
  },
  {
    title: '÷ one-hub-batched',
    digits: 2,
    value: (round, same) => ratio(round.perSecond, same.get('one-hub-batched')?.perSecond),
  },
  { title: '÷ mock', digits: 3, value: (round, same) => ratio(round.perSecond, same.get('mock')?.perSecond) },
  { title: 'streamed requests/s', digits: 0, value: (round) => round.streamedPerSecond },
  {
    title: 'streamed ÷ portkey',
    digits: 2,
    value: (round, same) => ratio(round.streamedPerSecond, same.get('portkey')?.streamedPerSecond),
  },
  { title: 'gateway CPU s/1k', digits: 3, value: (round) => round.cost.gatewayCpu },
  { title: 'database CPU s/1k', digits: 3, value: (round) => round.cost.databaseCpu },
  { title: 'p50 ms at load', digits: 2, value: (round) => round.busyP50 },
  { title: 'p99 ms at load', digits: 2, value: (round) => round.busyP99 },
  { title: 'added p50 ms, 1 conn', digits: 3, value: (round, same) => added(round, same, 'singleP50') },
  { title: 'added first token p50 ms', digits: 3, value: (round, same) => added(round, same, 'firstTokenP50') },
  { title: 'open loop calls/s', digits: 0, value: (round) => round.openRate },
  { title: 'open p50 ms', digits: 2, value: (round) => round.openP50 },
  { title: 'open p99 ms', digits: 2, value: (round) => round.openP99 },
  { title: 'open p99.9 ms', digits: 2, value: (round) => round.openP999 },
  { title: 'driver lag p99 ms', digits: 2, value: (round) => round.sendLagP99 },
]

/** In place of a figure that a target doesn't have; a line of nothing else, such as a ratio to an absent target, is left out. */
const NOTHING = '–'

function ratio(value: number, base: number | undefined): number | undefined {
  return base === undefined ? undefined : value / base
}

function added(
  round: RoundResult,
  same: ReadonlyMap<string, RoundResult>,
  figure: 'singleP50' | 'firstTokenP50',
): number | undefined {
  const mock = same.get('mock')
  return mock === undefined ? undefined : round[figure] - mock[figure]
}

/** Returns a Markdown table, one line a figure and one column a target. `rounds` holds each round's results in any order. */
export function table(rounds: readonly (readonly RoundResult[])[]): string {
  const targets = [...new Set(rounds.flatMap((round) => round.map((result) => result.target)))]
  const lines = [
    `| | ${targets.join(' | ')} |`,
    `|---|${targets.map(() => '---').join('|')}|`,
    ...COLUMNS.flatMap((column) => {
      const cells = targets.map((name) => cell(column, name, rounds))
      return cells.every((text) => text === NOTHING) ? [] : [`| ${column.title} | ${cells.join(' | ')} |`]
    }),
    `| resident MB, first → last round | ${targets.map((name) => growth(name, rounds, 'residentMegabytes')).join(' | ')} |`,
    `| database MB | ${targets.map((name) => growth(name, rounds, 'databaseMegabytes')).join(' | ')} |`,
    `| answers (errors) | ${targets.map((name) => answers(name, rounds)).join(' | ')} |`,
  ]
  return lines.join('\n')
}

function cell(column: Column, target: string, rounds: readonly (readonly RoundResult[])[]): string {
  const values: number[] = []
  for (const round of rounds) {
    const same = new Map(round.map((result) => [result.target, result]))
    const own = same.get(target)
    const value = own && column.value(own, same)
    if (value !== undefined && Number.isFinite(value)) values.push(value)
  }
  if (values.length === 0) return NOTHING
  const show = (value: number) => value.toFixed(column.digits)
  if (values.length === 1) return show(median(values))
  return `${show(median(values))} [${show(Math.min(...values))}–${show(Math.max(...values))}]`
}

function resultsOf(target: string, rounds: readonly (readonly RoundResult[])[]): RoundResult[] {
  return rounds.flatMap((round) => round.filter((result) => result.target === target))
}

function growth(
  target: string,
  rounds: readonly (readonly RoundResult[])[],
  figure: 'residentMegabytes' | 'databaseMegabytes',
): string {
  const values = resultsOf(target, rounds).map((result) => result[figure].toFixed(0))
  return values.length > 0 && values[0] !== '0' ? `${values[0]} → ${values.at(-1)}` : NOTHING
}

function answers(target: string, rounds: readonly (readonly RoundResult[])[]): string {
  const results = resultsOf(target, rounds)
  const count = results.reduce((sum, result) => sum + result.answers, 0)
  const errors = results.reduce((sum, result) => sum + result.errors, 0)
  return `${count} (${errors})`
}
