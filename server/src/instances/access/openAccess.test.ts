/** The opening of the port of apps. */

import { expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { SILENCE } from '../../../test/silence.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { systemRandom } from '../../infra/random.ts'
import { openAccess } from './openAccess.ts'

test.each([
  ['a host behind a proxy that is not trusted', true, [], 1],
  ['one behind a trusted proxy', true, ['10.0.0.1'], 0],
  ['one on this machine', false, [], 0],
])('is warned of where strangers can lock customers out: %s', async (_what, isSecure, trustedProxies, expected) => {
  const warnings: string[] = []
  const { server } = await openAccess({
    ...{ access: { host: 'apps.test', isSecure, port: 0 }, host: '127.0.0.1', trustedProxies },
    // Nobody asks for an app here.
    database: null as unknown as Database,
    clock: new TurnedClock(),
    random: systemRandom(),
    log: { ...SILENCE, warn: (_fields, message) => void warnings.push(message) },
  })
  server.close()
  expect(warnings.filter((message) => message.includes('trusted_proxies')).length).toBe(expected)
})

test('an entry of trusted_proxies that is no address keeps it closed', async () => {
  const opening = openAccess({
    ...{ access: { host: 'apps.test', isSecure: true, port: 0 }, host: '127.0.0.1', trustedProxies: ['nonsense'] },
    database: null as unknown as Database,
    ...{ clock: new TurnedClock(), random: systemRandom(), log: SILENCE },
  })
  await expect(opening).rejects.toThrow('nonsense')
})
