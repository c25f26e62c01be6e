import { expect, test } from 'bun:test'
import { SILENCE } from '../../../test/silence.ts'
import { refusal } from '../../lib/errors.ts'
import { ProviderFailure } from '../../providers/dialect/spec.ts'
import { explainFailure } from './refusals.ts'

const OWN = { rejected: refusal('invalid_request', 'Our own words.') }
const FAILED = { chargeId: 'charge-1', name: 'a call for tests' }
const here = new AbortController().signal
const gone = AbortSignal.abort()

function explain(error: unknown, signal = here) {
  const logged: unknown[] = []
  const log = { ...SILENCE, error: (...what: unknown[]) => logged.push(what) }
  return { refusal: explainFailure(log, FAILED, error, signal, OWN), logged }
}

test("a failure is told in the endpoint's own words, in those of the dialect where it has any, else in everybody's", () => {
  const rejected = explain(new ProviderFailure('rejected', 'secret'))
  expect(rejected).toEqual({ refusal: OWN.rejected, logged: [] })
  const explained = explain(new ProviderFailure('rejected', 'secret', { publicMessage: 'Shorter, please.' }))
  expect(explained.refusal.message).toBe('Shorter, please.')
  expect(explain(new ProviderFailure('timeout', 'secret')).refusal.code).toBe('upstream_timeout')
})

test('a client that has left is no failure of ours', () => {
  expect(explain(new Error('aborted'), gone)).toMatchObject({ refusal: { code: 'upstream_unavailable' }, logged: [] })
})

test('a bug is logged with the id of its charge, and its words stay here', () => {
  const error = new TypeError('secret')
  const { refusal: told, logged } = explain(error)
  expect(told.code).toBe('internal_error')
  expect(told.message).not.toContain('secret')
  expect(logged).toEqual([[{ err: error, chargeId: 'charge-1' }, 'a call for tests failed']])
})
