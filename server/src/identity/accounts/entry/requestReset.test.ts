/** A forgotten password: what the server does before it answers is the same for every address. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type AccountsHouse, OWNER, openAccountsHouse } from '../../../../test/accountsHouse.ts'
import { until } from '../../../../test/until.ts'
import { systemClock } from '../../../infra/clock.ts'
import type { Database, Transaction } from '../../../infra/postgres/database.ts'
import { requestReset } from './requestReset.ts'

let house: AccountsHouse
beforeAll(async () => {
  house = await openAccountsHouse()
  await house.owner()
})
afterAll(() => house.gateway.close())

/** Asks for a link; returns the statements that ran before the answer, in their order. */
async function statementsFor(email: string): Promise<string[]> {
  const { database } = house.gateway
  const statements: string[] = []
  const recorded: Database = {
    ...database,
    query(text, parameters) {
      statements.push(text)
      return database.query(text, parameters)
    },
    async transaction(work) {
      statements.push('begin')
      const value = await database.transaction((tx) => {
        const within: Transaction = {
          isTransaction: true,
          query(text, parameters) {
            statements.push(text)
            return tx.query(text, parameters)
          },
        }
        return work(within)
      })
      statements.push('commit')
      return value
    },
  }
  let wakes = 0
  const onEnqueued = () => {
    wakes += 1
  }
  await requestReset({ database: recorded, clock: systemClock, onEnqueued }, email)
  expect(wakes).toBe(1)
  return statements
}

test('known and unknown addresses cost the same statements', async () => {
  const known = await statementsFor(OWNER.email)
  expect(known.length).toBeGreaterThan(2)
  expect(await statementsFor('nobody@example.com')).toEqual(known)
  // The known one gets its link all the same.
  expect(await house.linkTo(OWNER.email)).toContain('/account/reset?token=')
})

test('an unknown address gets no link and leaves nothing of itself behind', async () => {
  await statementsFor('stranger@example.com')
  await statementsFor(OWNER.email)
  await house.linkTo(OWNER.email)
  const jobs = () =>
    house.gateway.database.query<{ row: string }>("select t::text as row from jobs t where state <> 'done'")
  await until(async () => (await jobs()).length === 0)
  const rows = await house.gateway.database.query<{ row: string }>(
    'select t::text as row from jobs t union all select t::text from account_links t',
  )
  expect(rows.map(({ row }) => row).join()).not.toContain('stranger@example.com')
  const mails = await readFile(join(house.gateway.dataDirectory, 'account-links'), 'utf8')
  expect([mails.includes(OWNER.email), mails.includes('stranger@example.com')]).toEqual([true, false])
})
