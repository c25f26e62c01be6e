/** The audit of the kill test: it looks into the books when the restarted process has folded what the dead one had. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { foldShare } from '../../src/billing/admission/slots/foldSlot.ts'
import { takeSlot } from '../../src/processes/store.ts'
import { FastClock, type House, openHouse, openTill } from '../moneyHouse.ts'
import { audit } from './audit.ts'
import { startCountingProvider } from './countingProvider.ts'

const DEAD_SLOT = 11
const GRANTED = 1_000n
const clock = new FastClock(Date.UTC(2030, 0, 15, 12))

let house: House
beforeAll(async () => {
  house = await openHouse(clock)
})
afterAll(() => house.drop())

test('money that is still granted to a dead process is waited for, and is no fault', async () => {
  const organizationId = await house.organization(GRANTED)
  await takeSlot(house.database, DEAD_SLOT, clock.now())
  const till = openTill(house.database, DEAD_SLOT, clock)
  await till.writer.renew(till.share(organizationId), GRANTED)
  const provider = startCountingProvider()
  let isOver = false
  const evidence = { organizationId, grantedMicrocents: GRANTED, received: [], provider, stoppedCleanly: false }
  const audited = audit(house.database, evidence).finally(() => {
    isOver = true
  })
  for (let turn = 0; turn < 20; turn += 1) await house.database.query('select 1')
  expect(isOver).toBe(false)
  await foldShare(house.database, DEAD_SLOT, organizationId, clock.now())
  expect(await audited).toEqual([])
  await provider.stop()
})
