import { expect, test } from 'bun:test'
import { ProviderFailure } from '../dialect/spec.ts'
import { takeDirective } from './directive.ts'

const good: [string, object, string][] = [
  ['Hello', {}, 'Hello'],
  ['[[sandbox]] Hello', {}, 'Hello'],
  ['Hello [[sandbox tokens=50 tokens_per_second=0.5]]', { tokens: 50, tokens_per_second: 0.5 }, 'Hello'],
  ['[[sandbox  fail=unavailable   fail_after=10 ]]', { fail: 'unavailable', fail_after: 10 }, ''],
  ['[[sandbox no_usage finish=content_filter]]', { no_usage: true, finish: 'content_filter' }, ''],
  ['an array [[1]] is no directive', {}, 'an array [[1]] is no directive'],
]
test.each(good)('%s', (message, directive, rest) => {
  expect(takeDirective(message) as object).toEqual({ directive, rest })
})

const bad: [string, RegExp][] = [
  ['[[sandbox tokens=50', /write it as/],
  ['[[sandbox tokens = 50]]', /part 1: tokens must be a whole number from 0 to 100000/],
  ['[[sandboxes]]', /write it as/],
  ['[[sandbox tokens=1]] [[sandbox tokens=2]]', /more than one/],
  ['[[sandbox tokens=1 tokens=1]]', /part 2: tokens is given twice/],
  ['[[sandbox tokens=100001]]', /part 1/],
  ['[[sandbox tokens=-1]]', /part 1/],
  ['[[sandbox tokens=1.5]]', /part 1/],
  ['[[sandbox tokens=1e3]]', /part 1/],
  ['[[sandbox tokens]]', /part 1/],
  ['[[sandbox no_usage=1]]', /part 1: no_usage takes no value/],
  ['[[sandbox first_token_ms=1 canary=1]]', /part 2: no such name; the names are tokens, /],
  ['[[sandbox constructor=1]]', /part 1: no such name/],
  ['[[sandbox fail=badly]]', /part 1: fail must be one of unavailable, /],
  ['[[sandbox fail_after=1]]', /fail_after needs fail/],
  ['[[sandbox fail=timeout silent_after=1]]', /exclude each other/],
]
test.each(bad)('%s is refused, told why, and not quoted', (message, problem) => {
  let failure: unknown
  try {
    takeDirective(message)
  } catch (error) {
    failure = error
  }
  expect(failure).toBeInstanceOf(ProviderFailure)
  const { kind, message: detail, publicMessage } = failure as ProviderFailure
  expect(kind).toBe('rejected')
  expect(detail).toMatch(problem)
  expect(publicMessage).toMatch(problem)
  expect(detail).not.toContain('canary')
})
