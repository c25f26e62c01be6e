/** Many processes see low balances at the same time, each with connections of its own: one payment for each. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { AMOUNT_CENTS, type AutoPayHouse, openAutoPayHouse } from '../../../test/autoPayHouse.ts'
import { DAY_MS, MINUTE_MS } from '../../lib/time.ts'

const PROCESSES = 8
const RUNNERS = 7
const ROUNDS = 12
const CUSTOMERS = 4

interface Looker {
  readonly child: ChildProcess
  /** The next line that it says. */
  said(): Promise<string>
}

let house: AutoPayHouse
const lookers: Looker[] = []
beforeAll(async () => {
  house = await openAutoPayHouse()
  for (let count = 0; count < PROCESSES; count += 1) lookers.push(startLooker())
  expect(await Promise.all(lookers.map((each) => each.said()))).toEqual(lookers.map(() => 'ready'))
}, 120_000)
afterAll(async () => {
  const ended = lookers.map(({ child }) => new Promise((resolve) => child.once('exit', resolve)))
  for (const { child } of lookers) child.stdin?.end()
  await Promise.all(ended)
  await house.close()
}, 60_000)

function startLooker(): Looker {
  const program = join(import.meta.dirname, '../../../test/payments/autoPayProcess.ts')
  const words = [program, house.databaseUrl, house.stripe.url, `${RUNNERS}`]
  const child = spawn(process.execPath, words, { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return { child, said: async () => String((await lines.next()).value) }
}

/** Every runner of every process looks at once. */
async function lookTogether(): Promise<void> {
  for (const { child } of lookers) child.stdin?.write(`${house.clock.now()}\n`)
  expect(await Promise.all(lookers.map((each) => each.said()))).toEqual(lookers.map(() => 'done'))
}

test(`${PROCESSES * RUNNERS} runners in ${PROCESSES} processes that see low balances together make one payment for each`, async () => {
  const ids: string[] = []
  for (let count = 0; count < CUSTOMERS; count += 1) ids.push(await house.customer({ cents: 1_200 }))
  for (let round = 1; round <= ROUNDS; round += 1) {
    for (const id of ids) await house.take(id, round === 1 ? 300 : AMOUNT_CENTS)
    await lookTogether()
    // A payment that only a dead process could have left open would be found out by then, and one too many made.
    await house.clock.turn(6 * MINUTE_MS)
    await lookTogether()
    for (const id of ids) {
      expect([round, (await house.paid(id)).length]).toEqual([round, round])
      expect(await house.credited(id)).toEqual(Array.from({ length: round }, () => AMOUNT_CENTS))
      expect(await house.balance(id)).toBe(900 + AMOUNT_CENTS)
    }
    await house.clock.turn(DAY_MS)
  }
}, 240_000)
