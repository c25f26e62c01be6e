/** Changes by people whose membership ends, or loses its rights, while their request waits. */

import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { type AccountsHouse, memberIdOf, openAccountsHouse } from '../../../test/accountsHouse.ts'
import type { Role, SessionPrincipal } from '../../http/principal.ts'
import { systemClock } from '../../infra/clock.ts'
import { systemRandom } from '../../infra/random.ts'
import { createNoter } from './note.ts'

let house: AccountsHouse
let memberId: string
beforeAll(async () => {
  house = await openAccountsHouse()
  memberId = await memberIdOf(await house.join(await house.owner(), 'admin@example.com', 'admin'))
}, 60_000)
afterAll(() => house.gateway.close())
beforeEach(() => become('admin'))

const become = (role: Role, isRemoved = false) =>
  house.gateway.database.query(
    'update members set role = $2, removed_at = case when $3::boolean then now() end where id = $1::uuid',
    [memberId, role, isRemoved],
  )

const noter = createNoter({ clock: systemClock, random: systemRandom(), clientAddress: (peer) => peer })

/** Has a change written by a session of the member that was let in with a role. */
async function change(role: Role): Promise<string> {
  const principal: SessionPrincipal = {
    ...{ kind: 'session', id: memberId, organizationId: house.organizationId, newUntilMs: null },
    ...{ sessionId: memberId, signedInAtMs: 0, userId: memberId, role, isOperator: false },
  }
  const note = noter({ principal, connection: { address: '127.0.0.1' }, request: new Request('http://here/') })
  const entry = { action: 'limit.set', subjectId: null, before: null, after: { monthly: 1 } }
  const writing = house.gateway.database.transaction(note(entry))
  return writing.then(
    () => 'written',
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  )
}

test('a person who was removed, or is no admin any more, changes nothing', async () => {
  expect(await change('admin')).toBe('written')
  await become('member')
  expect(await change('admin')).toContain('needs an admin')
  expect(await change('member')).toBe('written')
  await become('admin', true)
  expect(await change('admin')).toContain('no longer a member')
  expect(await change('member')).toContain('no longer a member')
})
