/** Chat at a steady rate beside something else, and the latencies of its calls from the instant each was due. */

import { aimAt, drive } from '../drive.ts'
import type { OpenOutcome } from '../plan.ts'
import { FILLED_MODELS } from './books.ts'
import type { Scale } from './scale.ts'
import type { Side } from './side.ts'

const WARM_UP_SECONDS = 1
const CONNECTIONS_MOST = 64
/** After the driver's process is started: its own start and the warm-up are over. */
const BEGIN_MS = 1_800

/** Chat with nothing beside it, and beside the work. */
export interface Beside {
  readonly quiet: OpenOutcome
  readonly beside: OpenOutcome
}

/**
 * Measures chat for `scale.seconds` without the work, and then beside it. `work` begins with the measurement; `isOver` turns true at its
 * end. Work that goes on beyond is waited for, and is beside nothing then.
 */
export async function besideChat(
  scale: Scale,
  side: Side,
  work: (isOver: () => boolean) => Promise<unknown>,
): Promise<Beside> {
  const quiet = await chat(scale, side)
  let isOver = false
  const working = Bun.sleep(BEGIN_MS).then(() => work(() => isOver))
  const beside = await chat(scale, side)
  isOver = true
  await working
  return { quiet, beside }
}

/** The round with the middle multiple, since one pause of the machine decides the p99 of a round; the multiples of all become a note. */
export function middleOf({ table }: Scale, name: string, rounds: readonly Beside[]): Beside {
  const sorted = [...rounds].sort((one, other) => multipleOf(one) - multipleOf(other))
  const middle = sorted[Math.floor((sorted.length - 1) / 2)]
  if (middle === undefined) throw new Error('there was no round')
  table.note(
    `chat beside ${name}: p99 by round, as a multiple of the quiet one: ${rounds.map((round) => multipleOf(round).toFixed(2)).join(', ')}`,
  )
  return middle
}

/** The p99 beside the work as a multiple of the quiet one. */
function multipleOf({ quiet, beside }: Beside): number {
  return beside.latencyMs.p99 / quiet.latencyMs.p99
}

function chat({ session, seconds, chatRate }: Scale, side: Side): Promise<OpenOutcome> {
  const target = side.target()
  return drive<OpenOutcome>(session.processes, target, {
    mode: 'open',
    aim: aimAt(target, FILLED_MODELS[0], false),
    ratePerSecond: chatRate,
    warmupSeconds: WARM_UP_SECONDS,
    seconds,
    maxConnections: CONNECTIONS_MOST,
  })
}

/** Adds the rows of chat beside something; of both databases, or of what else the columns stand for. */
export function reportBeside({ table }: Scale, name: string, [small, large]: readonly [Beside, Beside]): void {
  const row = (measure: string, unit: string, of: (each: Beside) => number) =>
    table.add({ measure: `chat beside ${name}: ${measure}`, small: of(small), large: of(large), unit })
  row('p99 quiet', 'ms', ({ quiet }) => quiet.latencyMs.p99)
  row('p99', 'ms', ({ beside }) => beside.latencyMs.p99)
  row('p99 as a multiple of the quiet one', '', multipleOf)
  row('longest quiet', 'ms', ({ quiet }) => quiet.latencyMs.max)
  row('longest', 'ms', ({ beside }) => beside.latencyMs.max)
  const failed = [small, large].map(({ quiet, beside }) => quiet.errors + beside.errors)
  const lag = Math.max(...[small, large].map(({ beside }) => beside.sendLagMs.p99)).toFixed(1)
  table.note(
    `chat beside ${name}: ${failed.join(' and ')} calls failed; the driver itself was late by at most ${lag} ms (p99)`,
  )
}
