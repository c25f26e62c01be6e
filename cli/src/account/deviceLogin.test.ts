import { beforeEach, expect, test } from 'bun:test'
import { memoryFile, testSystem } from '../../test/testSystem.ts'
import { CliFailure } from '../failure.ts'
import { runLine } from '../run.ts'

const KEY = `svc_live_${'d'.repeat(24)}`
const CODE = {
  device_code: 'secret-device-code',
  user_code: 'ABCD-EFGH',
  verification_uri: 'https://gateway.test/device',
  expires_in: 60,
  interval: 2,
}

/** The answers to each poll, one after the other; the last one stays. */
let polls: (() => Response)[]
let asked: string[]
let paths: object
beforeEach(() => {
  asked = []
  paths = { '/device/code': {}, '/device/token': {} }
})

const refused = (error: string) => () => Response.json({ error }, { status: 400 })

function answer(url: string, init: RequestInit): Response {
  const path = url.replace('https://gateway.test', '')
  asked.push(`${init.method} ${path}`)
  if (path === '/manage/openapi.json') return Response.json({ paths })
  if (path === '/manage/v1/device/code') return Response.json(CODE)
  if (path === '/v1/models') return Response.json({ object: 'list', data: [] })
  return ((polls.length > 1 ? polls.shift() : polls[0]) ?? refused('expired_token'))()
}

/** Logs in; `meanwhile` is called before each second. */
async function logIn(
  words: readonly string[] = [],
  meanwhile: (second: number, interrupt: () => boolean) => void = () => {},
  logins = memoryFile(),
) {
  const environment = { TOLLGATE_URL: 'https://gateway.test' }
  const made = testSystem({ logins, environment, fetch: async (url, init) => answer(url, init) })
  let code: number | undefined
  const ended = runLine(['login', ...words], made.system).then((each) => {
    code = each
  })
  for (let second = 0; code === undefined && second < 300; second += 1) {
    meanwhile(second, made.interrupt)
    await made.clock.turn(1_000)
  }
  await ended
  return { code, ...made.printed, kept: logins.text, pending: made.clock.pending, elapsedMs: made.clock.monotonicMs() }
}

test('the person is shown page and code, and the key is kept once it is approved', async () => {
  polls = [refused('authorization_pending'), refused('slow_down'), () => Response.json({ access_token: KEY })]
  const { code, out, said, kept, pending } = await logIn()
  expect([code, pending]).toEqual([0, 0])
  expect(said).toBe(
    'Open https://gateway.test/device and type the code ABCD-EFGH there.\n' +
      'Waiting for it; the code is good for 1 minute, until 2026-01-01 00:01 UTC. Ctrl-C ends the waiting.\n',
  )
  expect(out).toStartWith('Logged in to https://gateway.test.')
  expect(kept).toContain(KEY)
  expect([out, said].join()).not.toContain(KEY)
  expect(asked.filter((each) => each.endsWith('/device/token'))).toHaveLength(3)
})

test.each<[string, (() => Response)[], number, RegExp]>([
  ['refused', [refused('access_denied')], 1, /the login was refused in the browser/],
  ['expired', [refused('expired_token')], 1, /the code has expired before anybody approved it/],
  ['never approved', [refused('authorization_pending')], 1, /the code has expired before anybody approved it/],
  ['answered with no key', [() => Response.json({})], 1, /does not understand: update/],
])('a login that is %s keeps nothing', async (_, answers, exitCode, says) => {
  polls = answers
  const { code, said, kept, pending, elapsedMs } = await logIn()
  expect([code, kept, pending]).toEqual([exitCode, null, 0])
  expect(said).toMatch(says)
  expect(elapsedMs).toBeLessThan(65_000)
})

const away = () => {
  throw new Error('away')
}
const failing = (status: number) => () => new Response('<html>', { status })

test('a server that is away, overloaded or failing is asked again, less and less often, and the key is kept', async () => {
  polls = [
    away,
    failing(502),
    failing(429),
    refused('authorization_pending'),
    () => Response.json({ access_token: KEY }),
  ]
  const { code, kept, elapsedMs } = await logIn()
  expect([code, asked.filter((each) => each.endsWith('/device/token')).length]).toEqual([0, 5])
  expect(kept).toContain(KEY)
  // Pauses of 2, 4, 8 and 16 s, and the interval of 2 s again after an answer.
  expect(elapsedMs).toBe(32_000)
})

test('a server that stays away is asked until the code expires, and the failure says so', async () => {
  polls = [away]
  const { code, said, kept, pending, elapsedMs } = await logIn()
  expect([code, kept, pending, elapsedMs]).toEqual([1, null, 0, 60_000])
  expect(said).toMatch(
    /the code has expired while the server could not be asked \(.*can't be reached.*\): log in again/,
  )
})

test('Ctrl-C ends a poll that has no answer', async () => {
  polls = [away]
  const left = await logIn([], (second, interrupt) => second === 9 && interrupt())
  expect([left.code, left.kept, left.pending]).toEqual([130, null, 0])
})

test('a server that offers none is said to, and nothing is begun there', async () => {
  paths = { '/keys': {} }
  const { code, said } = await logIn(['--json'])
  expect([code, asked]).toEqual([1, ['GET /manage/openapi.json']])
  expect(JSON.parse(said).error).toMatchObject({
    code: 'not_offered',
    message: expect.stringContaining('--with-token'),
  })
})

test('with --json page and code are fields of a notice', async () => {
  polls = [() => Response.json({ access_token: KEY })]
  const { code, said } = await logIn(['--json'])
  expect([code, said.split('\n').length]).toEqual([0, 2])
  expect(JSON.parse(said).notice).toMatchObject({
    code: 'device_code',
    verification_uri: CODE.verification_uri,
    user_code: CODE.user_code,
    expires_at: '2026-01-01T00:01:00.000Z',
  })
})

test('where the login can not be kept, nobody is sent to the browser', async () => {
  const check = () => Promise.reject(new CliFailure('full'))
  const { code, said } = await logIn([], undefined, { ...memoryFile(), check })
  expect([code, said, asked]).toEqual([1, 'tollgate: full\n', []])
})

test('Ctrl-C ends the waiting; with --no-input it is not begun', async () => {
  polls = [refused('authorization_pending')]
  const left = await logIn([], (second, interrupt) => second === 5 && interrupt())
  expect([left.code, left.kept, left.pending]).toEqual([130, null, 0])
  asked = []
  expect((await logIn(['--no-input'])).code).toBe(2)
  expect(asked).toEqual([])
})
