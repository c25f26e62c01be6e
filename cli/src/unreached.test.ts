import { expect, test } from 'bun:test'
import { testSystem } from '../test/testSystem.ts'
import { runLine } from './run.ts'

const URL = 'https://gateway.test'

/** Types a line whose request ends with an error of this code; returns what is said. */
async function type(code: string, words: readonly string[], environment: Readonly<Record<string, string>> = {}) {
  let requests = 0
  const { system, clock, printed } = testSystem({
    environment: { TOLLGATE_API_KEY: 'svc_live_x', TOLLGATE_URL: URL, ...environment },
    checkFiles: async () => {},
    fetch: () => {
      requests += 1
      return Promise.reject(Object.assign(new Error('no'), code === '' ? {} : { code }))
    },
  })
  const running = runLine(words, system)
  let isOver = false
  void running.finally(() => {
    isOver = true
  })
  while (!isOver) await clock.turn(1_000)
  expect(await running).toBe(1)
  return { said: printed.said, requests }
}

test.each([
  ['ECONNREFUSED', 'the connection is refused; check that it runs'],
  ['ENOTFOUND', 'its name is not known; check the address in --server or TOLLGATE_URL'],
  ['EAI_AGAIN', 'could not be looked up; check your network'],
  ['ECONNRESET', 'the connection was closed before an answer came'],
  ['ETIMEDOUT', 'nothing answers there'],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'NODE_EXTRA_CA_CERTS'],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'NODE_EXTRA_CA_CERTS'],
  ['CERT_HAS_EXPIRED', 'its certificate has expired'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'its certificate is for another name'],
  ['EPROTO', 'begins with http://'],
  ['', 'check that it runs, or name another with --server or TOLLGATE_URL'],
])('%s says what is wrong and what to do', async (code, says) => {
  const { said } = await type(code, ['balance'])
  expect(said).toStartWith(`tollgate: ${URL} can't be reached: `)
  expect(said).toContain(says)
})

test('a proxy of the environment is told of, where the server is asked without it and may not be reached so', async () => {
  const proxy = { HTTPS_PROXY: 'http://proxy.test' }
  expect((await type('ETIMEDOUT', ['balance'], proxy)).said).toContain('HTTPS_PROXY is set')
  expect((await type('ETIMEDOUT', ['balance'])).said).not.toContain('HTTPS_PROXY')
  expect((await type('CERT_HAS_EXPIRED', ['balance'], proxy)).said).not.toContain('HTTPS_PROXY')
})

test('a request that was not sent has made nothing: it is not sent again, and no key is named', async () => {
  const words = ['video', 'create', 'x', '--model', 'svc/film']
  const unsent = await type('ECONNREFUSED', words)
  expect([unsent.requests, unsent.said.includes('--idempotency-key')]).toEqual([1, false])
  const perhaps = await type('ECONNRESET', words)
  expect([perhaps.requests, perhaps.said.includes('--idempotency-key')]).toEqual([2, true])
})

test.each([
  [['balance'], 30],
  [['embed', 'one', '--model', 'svc/m'], 600],
  [['chat', 'Hi', '--model', 'svc/m', '--json'], 600],
  [['chat', 'Hi', '--model', 'svc/m'], 600],
])('an answer that does not come in time is said to be late: %j within %d s', async (words, seconds) => {
  const { system, clock, printed } = testSystem({
    fetch: (_, { signal }) =>
      new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  })
  const running = runLine(words, system)
  await clock.turn(seconds * 1_000 - 1)
  expect(printed.said).toBe('')
  await clock.turn(1)
  expect(await running).toBe(1)
  expect(printed.said).toContain(`http://gateway.test gave no answer within ${seconds} s`)
})

test('so is one that stops in its middle until the time is over', async () => {
  const { system, clock, printed } = testSystem({
    fetch: async (_, { signal }) =>
      new Response(
        new ReadableStream({
          start: (controller) => signal.addEventListener('abort', () => controller.error(signal.reason)),
        }),
      ),
  })
  const running = runLine(['balance'], system)
  await clock.turn(30_000)
  expect(await running).toBe(1)
  expect(printed.said).toContain('gave no answer within 30 s')
})
