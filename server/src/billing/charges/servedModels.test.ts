import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { type House, openHouse, openTill } from '../../../test/moneyHouse.ts'
import type { Database } from '../../infra/postgres/database.ts'
import type { Charge } from './charge.ts'
import { ServedModels } from './servedModels.ts'

const clock = new TurnedClock(Date.UTC(2030, 0, 15, 12))
const ORGANIZATION = '00000000-0000-4000-8000-000000000002'

let house: House
beforeAll(async () => {
  house = await openHouse(clock)
})
afterAll(() => house.drop())

const chargeFor = (more: Partial<Charge>): Charge => house.charge(ORGANIZATION, 1n, more)

/** The rows with a target, each as its model, tier and price version. */
async function rowsOf(target: string): Promise<string[]> {
  const rows = await house.database.query<{ row: string }>(
    `select concat_ws(' ', model, tier, encode(price_hash, 'hex')) as row from served_models where target = $1 order by id`,
    [target],
  )
  return rows.map(({ row }) => row)
}

test('each combination of model, tier, price version and target has a row of its own, once', async () => {
  const target = 'mock/each'
  const charges = [
    chargeFor({ target }),
    chargeFor({ target, model: 'svc/other' }),
    chargeFor({ target, tier: 'economy' }),
    chargeFor({ target, priceHash: new Uint8Array(32).fill(1) }),
    chargeFor({ target }),
  ]
  const served = new ServedModels()
  await served.ensure(house.database, charges)
  const numbers = charges.map((charge) => served.numberOf(charge))
  expect(new Set(numbers.slice(0, 4)).size).toBe(4)
  expect(numbers[4]).toBe(numbers[0] ?? -1)
  expect((await rowsOf(target)).sort()).toEqual(
    [
      ['svc/other', 'serverless', '00'],
      ['svc/test', 'economy', '00'],
      ['svc/test', 'serverless', '00'],
      ['svc/test', 'serverless', '01'],
    ].map(([model, tier, byte]) => `${model} ${tier} ${byte?.repeat(32)}`),
  )
})

test('processes that add the same row at once all name the one that is there', async () => {
  const charge = chargeFor({ target: 'mock/at once' })
  const processes = Array.from({ length: 12 }, () => new ServedModels())
  await Promise.all(processes.map((served) => served.ensure(house.database, [charge])))
  expect(new Set(processes.map((served) => served.numberOf(charge))).size).toBe(1)
  expect(await rowsOf('mock/at once')).toHaveLength(1)
})

test('a number is asked for once, and again after a batch has failed', async () => {
  let asked = 0
  let failsNext = false
  const database: Database = {
    ...house.database,
    query(text, parameters) {
      if (text.includes('insert into served_models')) asked += 1
      if (!failsNext || !text.includes('insert into charges')) return house.database.query(text, parameters)
      failsNext = false
      return Promise.reject(new Error('the connection was closed'))
    },
  }
  const organization = await house.organization(1_000n)
  const { writer, share } = openTill(database, 0, clock)
  const post = () => writer.post(house.charge(organization, 1n, { target: 'mock/again' }), share(organization))
  await post()
  await post()
  expect(asked).toBe(1)
  failsNext = true
  const posting = post()
  let isPosted = false
  posting.then(() => {
    isPosted = true
  })
  while (!isPosted) await clock.turn(5)
  expect(asked).toBe(2)
  expect(await house.spent(organization)).toEqual({ microcents: 3n, charges: 3 })
})

test('more combinations than are remembered are looked up again, those of the same batch too', async () => {
  const served = new ServedModels()
  const chargesOf = (name: string, count: number) =>
    Array.from({ length: count }, (_, index) => chargeFor({ target: `mock/${name} ${index}` }))
  const [many, few] = [chargesOf('many', 9_999), chargesOf('few', 2)]
  await served.ensure(house.database, many)
  const mixed = [...many.slice(0, 2), ...few]
  await served.ensure(house.database, mixed)
  expect(new Set(mixed.map((charge) => served.numberOf(charge))).size).toBe(4)
  expect(() => served.numberOf(many[5] as Charge)).toThrow('not known')
})
