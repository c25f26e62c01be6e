/** Calls of other organizations while a crowd that has been idle for a minute gives back what it was granted. */

import { MINUTE_MS } from '../../src/lib/time.ts'
import { ClientConnection } from '../connection.ts'
import { CallFigures, callOnce } from './ask.ts'
import { callOfCrowd } from './calls.ts'
import type { Scale } from './scale.ts'
import type { Side } from './side.ts'

/** Before the minute is over, so that the calls begin before the first give-back. */
const BEGIN_MS = MINUTE_MS - 5_000
/** Shares are looked at once a minute: until then all of the crowd's have been given back. */
const WATCH_MS = MINUTE_MS + 10_000
/** Between two calls. A call that takes longer delays the next one. */
const GAP_MS = 100
/** A call that took longer has waited for something. */
const WAITED_MS = 200

interface Watched {
  readonly figures: CallFigures
  readonly waited: number
}

export async function measureIdleCrowd(scale: Scale): Promise<void> {
  const { sides, table, crowd } = scale
  // At the same time, since most of it is waiting.
  const watched = await Promise.all(sides.map((side) => watch(side, crowd)))
  const [small, large] = watched
  if (small === undefined || large === undefined) return
  const row = (measure: string, unit: string, of: (each: Watched) => number, compared: 'ratio' | 'difference') =>
    table.add({
      measure: `first calls of others after a crowd: ${measure}`,
      small: of(small),
      large: of(large),
      unit,
      compared,
    })
  row('calls', '', ({ figures }) => figures.calls, 'difference')
  row('failed', '', ({ figures }) => figures.failed, 'difference')
  row(`longer than ${WAITED_MS} ms`, '', ({ waited }) => waited, 'difference')
  row('median', 'ms', ({ figures }) => figures.samples.percentiles().p50, 'ratio')
  row('longest', 'ms', ({ figures }) => figures.samples.percentiles().max, 'ratio')
  for (const { figures } of watched) {
    if (figures.firstError !== null) table.note(`after a crowd, the first call that failed: ${figures.firstError}`)
  }
}

/** Each call is another organization's, behind the crowd; where there are none, as in the small database, the crowd's own again. */
async function watch(side: Side, crowd: number): Promise<Watched> {
  await callOfCrowd(side, crowd)
  const idleAtMs = performance.now()
  const { organizations } = side.size
  const first = Math.min(crowd, organizations)
  await Bun.sleep(BEGIN_MS)
  const figures = new CallFigures()
  let waited = 0
  const connection = new ClientConnection(side.port)
  for (let index = 0; performance.now() < idleAtMs + BEGIN_MS + WATCH_MS; index += 1) {
    const tookMs = await callOnce(connection, side.target(), 1 + ((first + index) % organizations), figures)
    if (tookMs > WAITED_MS) waited += 1
    await Bun.sleep(Math.max(0, GAP_MS - tookMs))
  }
  connection.close()
  return { figures, waited }
}
