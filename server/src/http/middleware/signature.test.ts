import { expect, test } from 'bun:test'
import { exchangeOf } from '../../../test/exchange.ts'
import { refusal } from '../../lib/errors.ts'
import { ok, refused } from '../../lib/result.ts'
import { signature } from './signature.ts'

const FORGED = refusal('invalid_request', 'The signature is wrong.')
const SENDER = { kind: 'signed', sender: 'payments' } as const

const step = signature((headers, bytes) =>
  headers.get('X-Signature') === `${bytes.byteLength}` ? Promise.resolve(ok(SENDER)) : refused(FORGED),
)
const exchange = (sent: string) =>
  exchangeOf('/v1/things', { method: 'POST', headers: { 'X-Signature': sent } }, { bytes: new Uint8Array(3) })

test('a request that is verified comes from its sender', async () => {
  const signed = exchange('3')
  expect(await step(signed)).toBeNull()
  expect(signed.principal).toEqual(SENDER)
})

test('any other is refused in the words of the route, and its caller stays unknown', async () => {
  const forged = exchange('4')
  expect(await step(forged)).toBe(FORGED)
  expect(forged.principal.kind).toBe('public')
})
