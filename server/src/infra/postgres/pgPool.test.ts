/** The package `pg` reaches a PostgreSQL of the operator's own where `client.ts` does, with every `sslmode`. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { certificateFor } from '../../../test/certificate.ts'
import type { TestPostgres } from '../../../test/postgres.ts'
import { startTcpPostgres } from '../../../test/tcpPostgres.ts'
import { toAddress } from './address.ts'
import { openPgPool } from './pgPool.ts'

setDefaultTimeout(60_000)

let folder: string
let withTls: TestPostgres
let withoutTls: TestPostgres

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tollgate-modes-'))
  const certificate = await certificateFor('localhost')
  await writeFile(join(folder, 'cert.pem'), certificate.cert)
  withTls = await startTcpPostgres(certificate)
  withoutTls = await startTcpPostgres(null)
})
afterAll(async () => {
  await withTls?.stop()
  await withoutTls?.stop()
  await rm(folder, { recursive: true })
})

/** Returns a mode with what both clients say of it. */
async function reachedBy(url: string, isTrusted: boolean) {
  const env = { ...process.env, ...(isTrusted ? { NODE_EXTRA_CA_CERTS: join(folder, 'cert.pem') } : {}) }
  const program = [process.execPath, join(import.meta.dirname, '../../../test/tlsModes.ts'), url]
  const child = Bun.spawn(program, { env, stderr: 'ignore' })
  return JSON.parse(await new Response(child.stdout).text())
}

const at = (url: string, hostname: string) => Object.assign(new URL(url), { hostname }).toString()
const both = (rows: Readonly<Record<string, string>>) => Object.entries(rows).map(([mode, said]) => [mode, said, said])
const LAX = { disable: 'plain', allow: 'tls', prefer: 'tls', require: 'tls' }

test('a server without TLS', async () => {
  const refused = { require: 'no tls', 'verify-ca': 'no tls', 'verify-full': 'no tls' }
  expect(await reachedBy(withoutTls.url, false)).toEqual(
    both({ disable: 'plain', allow: 'plain', prefer: 'plain', ...refused }),
  )
})

test('a server with a certificate that nobody vouches for', async () => {
  const refused = 'DEPTH_ZERO_SELF_SIGNED_CERT'
  expect(await reachedBy(at(withTls.url, 'localhost'), false)).toEqual(
    both({ ...LAX, 'verify-ca': refused, 'verify-full': refused }),
  )
})

test('a server with a certificate for another name', async () => {
  expect(await reachedBy(at(withTls.url, '127.0.0.1'), true)).toEqual(
    both({ ...LAX, 'verify-ca': 'tls', 'verify-full': 'ERR_TLS_CERT_ALTNAME_INVALID' }),
  )
})

test('a server with a certificate for its name', async () => {
  expect(await reachedBy(at(withTls.url, 'localhost'), true)).toEqual(
    both({ ...LAX, 'verify-ca': 'tls', 'verify-full': 'tls' }),
  )
})

test('a connection with TLS is given up as well after a statement without an answer', async () => {
  const url = new URL(withTls.url)
  url.searchParams.set('sslmode', 'require')
  const pool = await openPgPool(toAddress(url.toString()), () => {})
  for (const client of await Promise.all([pool.connect(), pool.connect()])) {
    const impatient = { text: 'select pg_sleep(60)', query_timeout: 100 }
    await expect(client.query(impatient)).rejects.toThrow('Query read timeout')
    client.release()
  }
  // Less than the server's own limit, at which it would answer on the former connections.
  const patient = { text: 'select ssl from pg_stat_ssl where pid = pg_backend_pid()', query_timeout: 20_000 }
  const { rows } = await pool.query(patient)
  expect(rows).toEqual([{ ssl: true }])
  await pool.end()
})
