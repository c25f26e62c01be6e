import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type FreshDatabase, freshDatabase } from '../../../test/postgres.ts'
import { systemClock } from '../../infra/clock.ts'
import { createLog } from '../../infra/log.ts'
import { systemRandom } from '../../infra/random.ts'
import { DAY_MS } from '../../lib/time.ts'
import { openIdentity } from '../open.ts'
import { recordAuditEntry } from './record.ts'

const NOW_MS = Date.UTC(2031, 0, 1)

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

test('entries are removed after 400 days, also where nobody signs in', async () => {
  const { database } = fresh
  const random = systemRandom()
  const actor = { kind: 'user', id: crypto.randomUUID(), address: '192.0.2.1' } as const
  const change = { organizationId: null, actor, subjectId: null, before: null, after: null }
  for (const days of [401, 399])
    await database.transaction((tx) =>
      recordAuditEntry(tx, random, NOW_MS - days * DAY_MS, { ...change, action: `change.${days}_days_ago` }),
    )
  const room = await openIdentity({
    ...{ database, reads: database, random, accounts: null },
    clock: { ...systemClock, now: () => NOW_MS },
    log: createLog('warn', { write: () => {} }),
    clientAddress: (peer) => peer,
    openCalls: { keys: () => [], setExpiry: () => {}, endKey: () => {} },
  })
  const sweep = room.periodicTasks.find(({ name }) => name === 'old audit entries')
  await sweep?.run(() => false)
  await room.close()
  expect(await database.query('select action from audit_entries')).toEqual([{ action: 'change.399_days_ago' }])
})
