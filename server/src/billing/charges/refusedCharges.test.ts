/** Charges whose statements fail until their deadline (E14): it depends on what the database says whether they are withdrawn. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { CHARGE_DEADLINE_MS, type House, openHouse, openTill } from '../../../test/moneyHouse.ts'
import { arrayLiteral, type Participant } from '../../infra/postgres/database.ts'
import { SECOND_MS } from '../../lib/time.ts'
import { readBalance } from '../admission/balance/balance.ts'
import type { Posted } from './chargeQueue.ts'

const NOON_MS = Date.UTC(2030, 0, 15, 12)
const GRANTED = 1_000n
const STEP_MS = 25
const OURS: Participant = () => Promise.resolve(true)

let house: House
beforeAll(async () => {
  house = await openHouse(new TurnedClock(NOON_MS))
})
afterAll(() => house.drop())

/** Makes each statement that posts a charge fail with these errors of the database, in turn; the last one goes on. */
async function refuse(states: readonly string[]): Promise<() => Promise<unknown>> {
  await house.database.query(
    `create sequence tries;
     create function refuse() returns trigger language plpgsql as $$
     declare states text[] := '${arrayLiteral(states)}';
     begin raise exception 'planted' using errcode = states[least(nextval('tries'), array_length(states, 1))]; end $$;
     create trigger refused before insert on charges for each row execute function refuse()`,
  )
  return () => house.database.query('drop trigger refused on charges; drop function refuse; drop sequence tries')
}

test.each([
  ['a full disk', ['53100'], 'withdrawn'],
  ['a timeout of the statement', ['57014'], 'withdrawn'],
  ['a server that is read-only', ['25006'], 'withdrawn'],
  ['a deadlock', ['40P01'], 'withdrawn'],
  ['a connection that broke', ['08006'], 'late'],
  ['a connection that broke once, and a full disk since', ['08006', '53100'], 'late'],
] as const)('%s: after %j the charge is %s at its deadline', async (_, states, kind) => {
  const clock = new TurnedClock(NOON_MS)
  const organization = await house.organization(GRANTED)
  const { writer, share: shareOf } = openTill(house.database, 0, clock, () => {}, 0n, [], CHARGE_DEADLINE_MS)
  const share = shareOf(organization)
  const heard: Posted[] = []
  const post = (cost: bigint, participants: readonly Participant[]) => {
    const charge = house.charge(organization, cost, { admittedAtMs: NOON_MS })
    share.unpostedMicrocents += cost
    void writer.post(charge, share, participants, () => true).then((posted) => heard.push(posted))
    return charge.chargeId
  }
  const recover = await refuse(states)
  const [plain] = [post(5n, []), post(7n, [OURS])]
  // At the deadline the writer waits for its next try, and no statement is under way.
  for (let turnedMs = 0; turnedMs < CHARGE_DEADLINE_MS; turnedMs += STEP_MS) {
    while (clock.pending < 2) await house.database.query('select 1')
    expect(heard).toEqual([])
    await clock.turn(STEP_MS)
  }
  expect(heard.map((posted) => posted.kind)).toEqual([kind, kind])
  await recover()
  const isWithdrawn = kind === 'withdrawn'
  expect(share.unpostedMicrocents).toBe(isWithdrawn ? 0n : 12n)
  // The writer looks once more.
  await clock.turn(SECOND_MS)
  await writer.drain()
  expect(await readBalance(house.database, organization)).toBe(isWithdrawn ? GRANTED : GRANTED - 7n)
  expect(await house.imbalances()).toEqual([])
  expect([share.unpostedMicrocents, writer.backlog, clock.pending]).toEqual([0n, 0, 0])
  const refunds = await house.database.query(
    "select source from ledger_entries where organization_id = $1::uuid and kind = 'refund'",
    [organization],
  )
  expect(refunds).toEqual(isWithdrawn ? [] : [{ source: `refund:${plain}` }])
})
