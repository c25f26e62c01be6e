/** The command on a real terminal: a conversation, its Ctrl-C, a login that is typed. */

import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type CliServer, type CliTerminal, CTRL_C, CTRL_D, startCliServer, typeCliOnTerminal } from './typeCli.ts'

setDefaultTimeout(30_000)

let cli: CliServer
const typed: CliTerminal[] = []
beforeAll(async () => {
  cli = await startCliServer()
})
afterEach(() => {
  for (const each of typed.splice(0)) each.kill()
})
afterAll(() => cli?.remove())

function type(words: readonly string[], environment: Record<string, string> = {}, columns = 120): CliTerminal {
  const own = { TOLLGATE_API_KEY: cli.server.firstKey, TOLLGATE_URL: cli.server.url, ...environment }
  const terminal = typeCliOnTerminal(words, { folder: cli.folder, environment: own }, columns)
  typed.push(terminal)
  return terminal
}

/** As the package readline draws it. */
const PROMPT = '\u001b[0J> '
const DIM = '\u001b[2m'

test('a conversation remembers what was said, shows each cost, and ends with Ctrl-D', async () => {
  const { ended, shows, types } = type(['chat', '--model', 'svc/sandbox', '--max-tokens', '5'])
  await shows(PROMPT)
  types('first question\r')
  await shows(PROMPT, 2)
  types('second question\r')
  expect(await shows(PROMPT, 3)).toContain(DIM)
  types('/clear\r')
  await shows(PROMPT, 4)
  types('/help\r')
  expect(await shows(PROMPT, 5)).toContain('/help is no command. /clear forgets what was said, /exit ends')
  types(CTRL_D)
  const { code, screen: last } = await ended
  expect(code).toBe(0)
  // The second prompt holds the first question and its five tokens too.
  expect(last.match(/5 out; \$0\.0000\d+; cut off: raise --max-tokens/g)).toHaveLength(2)
  expect(last).toContain('The conversation begins again.')
  const prompts = [...last.matchAll(/(\d+) tokens in/g)].map(([, count]) => Number(count))
  expect(prompts).toHaveLength(2)
  expect(prompts[1]).toBeGreaterThan(Number(prompts[0]) + 5)
})

test('Ctrl-C ends an answer and not the conversation; at the prompt it ends the command', async () => {
  const { ended, shows, types } = type(['chat', '--model', 'svc/sandbox'], { NO_COLOR: '1' })
  await shows(PROMPT)
  types('[[sandbox tokens=400 tokens_per_second=20]]\r')
  await shows('This is')
  types(CTRL_C)
  await shows(PROMPT, 2)
  types('short [[sandbox tokens=3]]\r')
  expect(await shows(PROMPT, 3)).toContain('3 out')
  types(CTRL_C)
  const { code, screen } = await ended
  expect(code).toBe(130)
  expect(screen).not.toContain(DIM)
  expect(screen.match(/tokens in/g)).toHaveLength(1)
})

test('Ctrl-C ends an answer that was asked for once, and says what is charged', async () => {
  const { ended, shows, types } = type([
    'chat',
    '[[sandbox tokens=400 tokens_per_second=20]]',
    '--model',
    'svc/sandbox',
  ])
  await shows('This is')
  types(CTRL_C)
  const { code, screen } = await ended
  expect(code).toBe(130)
  expect(screen).toEndWith('tollgate: left the answer: the prompt, and the tokens that were generated, are charged\r\n')
})

test('a key that is typed is not shown, and is kept', async () => {
  const { ended, shows, types } = type(['login', '--with-token'], { TOLLGATE_API_KEY: '' })
  await shows('(not shown): ')
  types(`${cli.server.firstKey}\r`)
  const { code, screen } = await ended
  expect(code).toBe(0)
  expect(screen).not.toContain(cli.server.firstKey)
  expect(await readFile(join(cli.folder, 'tollgate/logins.json'), 'utf8')).toContain(cli.server.firstKey)
})

test('a message on a narrow terminal is broken at spaces, and a command in it is not', async () => {
  const { ended } = type(['balance'], { TOLLGATE_API_KEY: '', TOLLGATE_URL: 'http://192.0.2.1:8080' }, 42)
  const { code, screen } = await ended
  expect([code, screen.split('\r\n')]).toEqual([
    4,
    [
      'tollgate: there is no API key for',
      'http://192.0.2.1:8080: set',
      'TOLLGATE_API_KEY, or log in with',
      '"tollgate login"',
      '',
    ],
  ])
})

test('with --no-input nothing is asked', async () => {
  const { ended } = type(['login', '--with-token', '--no-input'], { TOLLGATE_API_KEY: '' })
  expect(await ended).toEqual({ code: 2, screen: expect.stringContaining('pipe the key into standard input') })
  const chat = await type(['chat', '--model', 'svc/sandbox', '--no-input']).ended
  expect([chat.code, chat.screen]).toEqual([2, expect.stringContaining('the prompt is missing')])
})
