/** Renewals of shares that many processes make until an organization's last half dollar is spent. */

import { makeCustomer } from '../../test/customer.ts'
import type { TestServer } from '../../test/server.ts'
import { chatBody } from '../target.ts'
import type { Scale } from './scale.ts'
import { DEAR_MODEL, DEAR_TOKENS } from './settings.ts'
import { portOf, type Side } from './side.ts'
import { countStatements, forgetStatements } from './statements.ts'

const PROCESSES = 16
const BALANCE_CENTS = 50
/** Calls that wait for their answer at once. */
const AT_ONCE = 16
/** Bounds the run should no call be refused: 250 can be paid for. */
const CALLS_MOST = 1_000
/** Calls in a row that are refused before the organization counts as empty. */
const REFUSED_ENOUGH = 2 * PROCESSES

interface Answers {
  readonly paid: number
  /** With 402. */
  readonly refused: number
  readonly other: number
}

interface Spent extends Answers {
  readonly renewals: number
  readonly statements: number
}

export async function measureRenewals(scale: Scale): Promise<void> {
  const found: Spent[] = []
  for (const side of scale.sides) {
    const more = await side.startMore(PROCESSES - 1)
    try {
      const { key } = await makeCustomer(side.database, { cents: BALANCE_CENTS })
      await forgetStatements(side)
      const asked = await spend(side, [side.gateway, ...more], key)
      const { all, renewals } = await countStatements(side)
      found.push({ ...asked, renewals, statements: all })
    } finally {
      await Promise.all(more.map((gateway) => side.stop(gateway)))
    }
  }
  const [small, large] = found
  if (small === undefined || large === undefined) return
  const name = `$${(BALANCE_CENTS / 100).toFixed(2)} over ${PROCESSES} processes`
  const row = (measure: string, of: (each: Spent) => number) =>
    scale.table.add({
      measure: `${name}: ${measure}`,
      small: of(small),
      large: of(large),
      unit: '',
      compared: 'difference',
    })
  row('calls that were paid for', ({ paid }) => paid)
  row('calls refused with 402', ({ refused }) => refused)
  row('other answers', ({ other }) => other)
  row('renewals', ({ renewals }) => renewals)
  row('statements of all kinds', ({ statements }) => statements)
}

/** Calls the gateways in turn until all refuse. */
async function spend(side: Side, gateways: readonly TestServer[], key: string): Promise<Answers> {
  // As many tokens as there come, so that no call holds more than it costs.
  const body = JSON.stringify({ ...chatBody(side.target(), DEAR_MODEL, false), max_tokens: DEAR_TOKENS })
  const counts = { paid: 0, refused: 0, other: 0 }
  let made = 0
  let refusedInARow = 0
  const work = async () => {
    while (refusedInARow < REFUSED_ENOUGH && made < CALLS_MOST) {
      const gateway = gateways[made++ % gateways.length] ?? side.gateway
      const status = await callOn(portOf(gateway), key, body)
      refusedInARow = status === 402 ? refusedInARow + 1 : 0
      counts[status === 200 ? 'paid' : status === 402 ? 'refused' : 'other'] += 1
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  return counts
}

async function callOn(port: number, key: string, body: string): Promise<number> {
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' }
  const answer = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, { method: 'POST', headers, body })
  await answer.arrayBuffer()
  return answer.status
}
