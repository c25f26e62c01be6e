/** Payments of auto-pay that are not of the amount that was agreed. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { AMOUNT_CENTS, type AutoPayHouse, openAutoPayHouse } from '../../../test/autoPayHouse.ts'

let house: AutoPayHouse
beforeAll(async () => {
  house = await openAutoPayHouse({ automaticTax: true })
})
afterAll(() => house.close())

const amountsOf = (organizationId: string) =>
  house.database().query<{ amount: bigint; gross: bigint }>(
    `select amount_cents::bigint as amount, gross_cents::bigint as gross from payments
     where organization_id = $1::uuid and kind = 'auto_pay'`,
    [organizationId],
  )

test('a discount of the customer at Stripe lowers no payment', async () => {
  const id = await house.customer({ cents: 1_200 })
  const [customer] = house.stripe.all('customer').slice(-1)
  house.stripe.change(customer?.id ?? '', { percent_off: 20 })
  await house.take(id, 300)
  await house.look()
  expect(await house.credited(id)).toEqual([AMOUNT_CENTS])
  expect(await amountsOf(id)).toEqual([{ amount: 2_500n, gross: 2_975n }])
})

test('the amount that was paid is the one that counts, so that no refund takes more than was credited', async () => {
  const id = await house.customer({ cents: 1_200 })
  await house.take(id, 300)
  const provider: typeof house.provider = {
    ...house.provider,
    payOffSession: async () => ({
      ...{ state: 'paid', payment: 'pi_less', amountCents: 2_000, grossCents: 2_380, receiptUrl: null },
    }),
  }
  await house.look({ provider })
  expect(await house.credited(id)).toEqual([2_000])
  expect(await amountsOf(id)).toEqual([{ amount: 2_000n, gross: 2_380n }])
})
