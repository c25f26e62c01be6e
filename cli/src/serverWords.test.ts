import { expect, test } from 'bun:test'
import { inOwnWords } from './serverWords.ts'

test.each([
  [
    '/manage/v1/keys/x',
    'There is no such key; GET /manage/v1/keys lists them.',
    null,
    'There is no such key; "tollgate keys list" lists them.',
  ],
  [
    '/manage/v1/keys/x/rotate',
    "'overlap_seconds': expected number to be <=2592000.",
    null,
    '--overlap: must be at most 2592000.',
  ],
  ['/manage/v1/keys', "'name': expected string to have >=1 characters.", null, 'NAME: must have at least 1 character.'],
  ['/manage/v1/keys', "'scope' is required.", null, '--scope is missing.'],
  ['/manage/v1/top-ups', "'amount_cents': expected number to be >=500.", null, 'AMOUNT: must be at least $5.00.'],
  [
    '/v1/videos/x',
    'There is no video with this id: GET /v1/videos lists yours.',
    null,
    /: "tollgate video list" lists/,
  ],
  [
    '/manage/v1/device/code',
    'Too many logins are begun. Wait for the seconds in Retry-After, then try again.',
    '30',
    'Too many logins are begun. Wait for 30 seconds, then try again.',
  ],
  [
    '/v1/instances',
    "The price of this instance is 370 cents ($3.70) an hour. To accept it, set 'expected_price_per_hour_cents'.",
    null,
    'The price of this instance is 370 cents ($3.70) an hour. To accept it, set --price.',
  ],
  [
    '/v1/instances',
    "'app' is not offered: GET /v1/instances/offerings lists the apps.",
    null,
    'APP is not offered: "tollgate instances offerings" lists the apps.',
  ],
  [
    '/manage/v1/top-ups',
    'This endpoint is not enabled on this server.',
    null,
    'This server has no payments: its operator has not switched them on.',
  ],
  ['/v1/instances', 'This endpoint is not enabled on this server.', null, /has no instances/],
  ['/v1/models', 'Try again in a minute.', '60', 'Try again in a minute.'],
  ['/v1/models', 'Too fast.', '1', 'Too fast. Try again in 1 second.'],
  ['/v1/chat/completions', "'name': expected string.", 'Wed, 21 Oct 2031 07:28:00 GMT', "'name': expected string."],
])('%s: %s', (path, words, retryAfter, expected) => {
  const said = inOwnWords(words, path, retryAfter)
  if (expected instanceof RegExp) expect(said).toMatch(expected)
  else expect(said).toBe(expected)
})
