import { expect, test } from 'bun:test'
import { exchangeOf, TEST_KEY, TEST_SESSION } from '../../../test/exchange.ts'
import { refusal } from '../../lib/errors.ts'
import type { Middleware, PendingRequest } from '../pipeline.ts'
import type { Principal } from '../principal.ts'
import { operatorAlone } from './operator.ts'

const as =
  (principal: Principal): Middleware =>
  (pending: PendingRequest) => {
    pending.principal = principal
    return null
  }

test('an operator passes; a session without the role, a key and nobody are told that there is nothing', async () => {
  const codes: (string | null)[] = []
  for (const caller of [
    as({ ...TEST_SESSION, isOperator: true }),
    as({ ...TEST_SESSION, role: 'owner' }),
    as(TEST_KEY),
    () => refusal('unauthenticated', 'You are not signed in.'),
    () => refusal('insufficient_scope', 'You are a member of no organization.'),
    async () => refusal('upstream_unavailable', 'The session can’t be checked.'),
  ])
    codes.push((await operatorAlone(caller)(exchangeOf('/manage/v1/operator/targets')))?.code ?? null)
  expect(codes).toEqual([null, 'not_found', 'not_found', 'not_found', 'not_found', 'upstream_unavailable'])
})
