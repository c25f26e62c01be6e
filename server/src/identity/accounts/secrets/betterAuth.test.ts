import { expect, test } from 'bun:test'
import { TurnedClock } from '../../../../test/clock.ts'
import { oneDataKey } from '../../../../test/oneDataKey.ts'
import { freshDatabase } from '../../../../test/postgres.ts'
import { SILENCE } from '../../../../test/silence.ts'
import { toAddress } from '../../../infra/postgres/address.ts'
import { openPgPool } from '../../../infra/postgres/pgPool.ts'
import { Refused } from '../../../lib/errors.ts'
import { openBetterAuth } from './betterAuth.ts'

test('a sign-in whose connection was given up is told to come again', async () => {
  const fresh = await freshDatabase()
  const pool = await openPgPool(toAddress(fresh.url), () => {})
  // As after a statement without an answer: the package asks this client once more, to roll back.
  pool.on('acquire', (client) => void client.end())
  const dataKeys = oneDataKey(new Uint8Array(32))
  const passwords = await openBetterAuth({ pool, dataKeys, sessionDays: 1, clock: new TurnedClock(), log: SILENCE })
  const attempted = { email: 'ada@example.com', password: 'a long password', address: '192.0.2.1', userAgent: 'test' }
  const error = await passwords.signIn(attempted).catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(Refused)
  expect(error).toMatchObject({ refusal: { code: 'upstream_unavailable', retryAfterSeconds: 1 } })
  await pool.end()
  await fresh.drop()
})
