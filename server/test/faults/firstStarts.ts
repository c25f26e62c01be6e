/** Two gateways that start at the same time on one empty database of the operator's. */

import { expect } from 'bun:test'
import { randomBytes } from 'node:crypto'
import type { FreshDatabase } from '../postgres.ts'
import { startServer, type TestServer } from '../server.ts'

const SETTINGS = 'discovery: false\n'

/** Empties the database, starts the pair, and holds it against what one first start makes. */
export async function startPair({ database, url }: FreshDatabase): Promise<void> {
  await database.query('drop schema public cascade; create schema public')
  const environment = { DATABASE_URL: url, TOLLGATE_DATA_KEY: randomBytes(32).toString('hex') }
  const started = await Promise.allSettled([1, 2].map(() => startServer({ settings: SETTINGS, environment })))
  const servers = started.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
  try {
    expect(started.flatMap((each) => (each.status === 'rejected' ? [String(each.reason)] : []))).toEqual([])
    const keys = servers.map(({ firstKey }) => firstKey).filter((key) => key !== '')
    expect(keys).toHaveLength(1)
    for (const server of servers) expect(await balanceAt(server, keys[0] ?? '')).toMatchObject({ balance_cents: 2_500 })
    const [made] = await database.query(
      `select (select count(*) from organizations) as organizations, (select count(*) from api_keys) as keys,
         (select count(*) from ledger_entries) as entries, (select count(*) from data_keys) as data_keys`,
    )
    expect(made).toEqual({ organizations: 1n, keys: 1n, entries: 1n, data_keys: 1n })
  } finally {
    await Promise.all(servers.map((server) => server.remove()))
  }
}

async function balanceAt({ url }: TestServer, key: string): Promise<unknown> {
  const answer = await fetch(`${url}/billing/balance`, { headers: { Authorization: `Bearer ${key}` } })
  return answer.json()
}
