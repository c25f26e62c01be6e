/** A server and a command that do not find the settings file take no test payments for a database in use. */

import { afterAll, expect, setDefaultTimeout, test } from 'bun:test'
import { openDirectory } from '../dataDirectory.ts'
import { freshDatabase } from '../postgres.ts'
import { startServer } from '../server.ts'
import { typeCommand } from './terminal.ts'

setDefaultTimeout(60_000)

const endings: (() => Promise<unknown>)[] = []
afterAll(async () => {
  for (const end of endings.reverse()) await end()
})

test("with a database of the operator's own there are no payments", async () => {
  const fresh = await freshDatabase()
  endings.push(fresh.drop)
  const environment = { DATABASE_URL: fresh.url }
  const server = await startServer({ environment })
  endings.push(server.remove)
  const asked = await fetch(new URL('/manage/v1/top-ups', server.url), {
    method: 'POST',
    headers: { Authorization: `Bearer ${server.firstKey}` },
    body: JSON.stringify({ amount_cents: 2_000 }),
  })
  expect(asked.status).toBe(404)
  const reconciled = await typeCommand(['payments', 'reconcile'], { folder: server.dataDir, environment }).ended
  expect([reconciled.code, reconciled.stdout]).toEqual([1, ''])
  expect(reconciled.stderr).toMatch(
    /^tollgate: there is no settings file .*: name the one of your server with --config or TOLLGATE_CONFIG\n$/,
  )
})

test('with the embedded database a server whose organizations pay at Stripe does not start', async () => {
  const first = await startServer()
  endings.push(first.remove)
  const database = await openDirectory(first.dataDir)
  await database.query(
    `insert into payment_customers (organization_id, provider, customer, created_at)
     select id, 'stripe', 'cus_1', now() from organizations`,
  )
  await database.close()
  await first.stop()
  const again = startServer({ dataDir: first.dataDir })
  await expect(again).rejects.toThrow(/there is no settings file .*, and organizations of this database pay at another/)
})
