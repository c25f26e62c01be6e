/**
 * `bun tlsModes.ts URL` prints, for each `sslmode`, how both clients of PostgreSQL reach a server: `tls`, `plain`, or why they do not. A
 * test runs it with NODE_EXTRA_CA_CERTS, which is read at the start of a process only.
 */

import { systemClock } from '../src/infra/clock.ts'
import { toAddress } from '../src/infra/postgres/address.ts'
import { openClient } from '../src/infra/postgres/client.ts'
import { openPgPool } from '../src/infra/postgres/pgPool.ts'

const MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full']
const QUESTION = 'select ssl from pg_stat_ssl where pid = pg_backend_pid()'

async function said(asked: Promise<readonly { ssl: boolean }[]>): Promise<string> {
  try {
    return (await asked)[0]?.ssl === true ? 'tls' : 'plain'
  } catch (error) {
    const { code, message } = error as Error & { code?: string }
    // The two have different words for a server that takes no TLS.
    return /not support SSL/.test(message) ? 'no tls' : (code ?? message)
  }
}

async function reach(mode: string) {
  const url = new URL(process.argv[2] ?? '')
  url.searchParams.set('sslmode', mode)
  const client = openClient(url.toString(), { maxConnections: 1, clock: systemClock })
  const own = await said(client.query(QUESTION))
  await client.close()
  const pool = await openPgPool(toAddress(url.toString()), () => {})
  const pg = await said(pool.query(QUESTION).then(({ rows }) => rows))
  await pool.end()
  return [mode, own, pg]
}

const reached: string[][] = []
for (const mode of MODES) reached.push(await reach(mode))
console.log(JSON.stringify(reached))
