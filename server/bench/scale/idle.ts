/** The work of a database whose gateways have nothing to do. */

import type { TestServer } from '../../test/server.ts'
import { cpuSeconds } from '../processes.ts'
import type { Scale } from './scale.ts'
import type { Side } from './side.ts'
import { countStatements, forgetStatements } from './statements.ts'

const PROCESS_COUNTS = [1, 4, 16]
/** After the last start, until its work is over. */
const SETTLE_MS = 5_000

interface IdleWork {
  readonly statements: number
  readonly databaseSeconds: number
  readonly gatewaySeconds: number
}

/** Both databases are idle at the same time: they share nothing but the machine. */
export async function measureIdle({ sides, table, idleSeconds }: Scale): Promise<void> {
  const more: (readonly [Side, TestServer])[] = []
  try {
    for (const count of PROCESS_COUNTS) {
      for (const side of sides) {
        const missing = count - 1 - more.filter(([of]) => of === side).length
        for (const gateway of await side.startMore(missing)) more.push([side, gateway])
      }
      await Bun.sleep(SETTLE_MS)
      const [small, large] = await Promise.all(sides.map((side) => idleWork(side, idleSeconds)))
      if (small === undefined || large === undefined) return
      const name = `${count} idle ${count === 1 ? 'process' : 'processes'}, ${idleSeconds} s`
      const row = (measure: string, unit: string, of: (work: IdleWork) => number) =>
        table.add({ measure: `${name}: ${measure}`, small: of(small), large: of(large), unit })
      row('statements', '', ({ statements }) => statements)
      row('processor time of PostgreSQL', 'ms', ({ databaseSeconds }) => 1_000 * databaseSeconds)
      row('processor time of the gateways', 'ms', ({ gatewaySeconds }) => 1_000 * gatewaySeconds)
    }
  } finally {
    await Promise.all(more.map(([side, gateway]) => side.stop(gateway)))
  }
}

async function idleWork(side: Side, seconds: number): Promise<IdleWork> {
  await forgetStatements(side)
  const databaseBefore = cpuSeconds(side.databasePids)
  const gatewayBefore = cpuSeconds(side.gatewayPids)
  await Bun.sleep(seconds * 1_000)
  const databaseSeconds = cpuSeconds(side.databasePids) - databaseBefore
  const gatewaySeconds = cpuSeconds(side.gatewayPids) - gatewayBefore
  return { statements: (await countStatements(side)).all, databaseSeconds, gatewaySeconds }
}
