import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { runCommand } from '../../test/commandContext.ts'
import { type FreshDatabase, freshDatabase } from '../../test/postgres.ts'
import { readFigures } from '../billing/admission/accounts/figures.ts'
import { readBalance } from '../billing/admission/balance/balance.ts'
import { loadSettings } from '../catalog/load.ts'
import { isWellFormedKey } from '../identity/keys/key.ts'
import { findOrganizationByName } from '../identity/organizations/find.ts'
import { openClient } from '../infra/postgres/client.ts'
import { DAY_MS } from '../lib/time.ts'
import type { DatabaseRequest, ModelPull, ServeOptions } from './context.ts'

const START_MS = Date.UTC(2030, 0, 1)

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

let clock: TurnedClock
let opened: DatabaseRequest[]
let released: number
let served: ServeOptions[]
let failure: Error | undefined
beforeEach(() => {
  clock = new TurnedClock(START_MS)
  opened = []
  released = 0
  served = []
  failure = undefined
})

/** Runs a command line with the test's database, and gives what it printed. */
async function tollgate(...argv: string[]) {
  const ran = await runCommand(
    argv,
    { database: fresh.database, clock },
    {
      stdoutIsTerminal: true,
      stderrIsTerminal: argv.includes('terminal'),
      openDatabase: async (request) => {
        opened.push(request)
        if (failure !== undefined) throw failure
        return {
          database: fresh.database,
          clock,
          migrated: ['20261122-0000-baseline.sql'],
          release: async () => {
            released += 1
          },
        }
      },
      pullModel: async (pull: ModelPull) => {
        if (pull.source === null) {
          pull.onInstalling()
          return null
        }
        pull.onProgress(1_000_000, 2_000_000)
        return { file: '/data/models/tiny-Q4.gguf', sizeBytes: 2_000_000, sha256: 'ab'.repeat(32) }
      },
      installClusterClient: async ({ onInstalling }) => {
        onInstalling()
        return true
      },
      serve: async (options) => {
        served.push(options)
        return 7
      },
    },
  )
  return { ...ran, json: () => JSON.parse(ran.stdout) as Record<string, unknown> }
}

async function organization(name: string): Promise<string> {
  await tollgate('orgs', 'create', name)
  const found = await findOrganizationByName(fresh.database, name)
  if (!found.ok) throw new Error(found.refusal.message)
  return found.value.id
}

describe('a life of operating', () => {
  test('an organization is made with an empty account, credited exactly, and listed', async () => {
    const made = await tollgate('orgs', 'create', 'acme', '--json')
    expect(made).toMatchObject({ exitCode: 0, stderr: '' })
    expect(made.json()).toMatchObject({ name: 'acme', standing: 'established', created_at: '2030-01-01T00:00:00.000Z' })
    const id = String(made.json()['id'])
    expect(await readBalance(fresh.database, id)).toBe(0n)

    const granted = await tollgate(
      'credits',
      'grant',
      '--org',
      'acme',
      '--usd',
      '0.10000001',
      '--note',
      'a test',
      '--json',
    )
    expect(granted.json()).toMatchObject({ org: 'acme', amount_usd: '0.10000001', note: 'a test' })
    await tollgate('credits', 'grant', '--org', 'acme', '--usd', '50')
    expect(await readBalance(fresh.database, id)).toBe(5_010_000_001n)

    expect((await tollgate('orgs', 'list')).stdout).toContain(`acme  ${id}  established`)
    expect(released).toBe(opened.length)
  })

  test('a new organization is capped until it has paid; a gift is no payment', async () => {
    const made = await tollgate('orgs', 'create', 'trial', '--new', '--json')
    expect(made.json()).toMatchObject({ name: 'trial', standing: 'new' })
    const id = String(made.json()['id'])
    const state = async () => {
      const [row] = await fresh.database.query<{ first_paid_at: Date | null; new_until: Date | null }>(
        `select o.first_paid_at, a.new_until from organizations o join accounts a on a.organization_id = o.id
         where o.id = $1::uuid`,
        [id],
      )
      return [row?.first_paid_at?.getTime() ?? null, row?.new_until?.getTime() ?? null]
    }
    expect(await state()).toEqual([null, START_MS + 7 * DAY_MS])
    expect((await readFigures(fresh.database, id, START_MS))?.isNew).toBe(true)
    await tollgate('credits', 'grant', '--org', 'trial', '--usd', '5', '--promotional')
    expect(await state()).toEqual([null, START_MS + 7 * DAY_MS])
    await clock.turn(1_000)
    await tollgate('credits', 'grant', '--org', 'trial', '--usd', '5')
    expect(await state()).toEqual([START_MS + 1_000, null])
    await clock.turn(1_000)
    await tollgate('credits', 'grant', '--org', 'trial', '--usd', '5')
    expect(await state()).toEqual([START_MS + 1_000, null])
    expect((await readFigures(fresh.database, id, START_MS))?.isNew).toBe(false)
    expect(await readBalance(fresh.database, id)).toBe(1_500_000_000n)
  })

  test('who is told is set, shown, and cleared', async () => {
    await organization('told')
    const set = await tollgate(
      'orgs',
      'update',
      'told',
      '--notify',
      'a@example.com',
      '--notify=b@example.com',
      '--json',
    )
    expect(set.json()).toMatchObject({ name: 'told', notify: ['a@example.com', 'b@example.com'] })
    expect((await tollgate('orgs', 'list')).stdout).toMatch(/told .* a@example\.com,\n +b@example\.com\n/)
    const again = await tollgate('orgs', 'update', 'told', '--notify', 'c@example.com')
    expect(again.stdout).toBe('Notices of "told" go to c@example.com.\n')
    const cleared = await tollgate('orgs', 'update', 'told', '--no-notify')
    expect(cleared.stdout).toBe('Notices of "told" are not mailed.\n')
    const wrong = [
      await tollgate('orgs', 'update', 'told'),
      await tollgate('orgs', 'update', 'told', '--no-notify', '--notify', 'a@example.com'),
      await tollgate('orgs', 'update', 'told', '--notify', 'Ann <a@example.com>'),
      await tollgate(
        'orgs',
        'update',
        'told',
        ...Array.from({ length: 11 }, (_, index) => `--notify=a${index}@b.test`),
      ),
      await tollgate('orgs', 'update', 'nobody', '--no-notify'),
    ]
    expect(wrong.map(({ exitCode }) => exitCode)).toEqual([2, 2, 1, 1, 1])
    expect(wrong.map(({ stderr }) => stderr).join('')).toContain('is not a mail address')
  })

  test('a key is made, shown once, listed without itself, and revoked', async () => {
    await organization('keyed')
    const made = await tollgate(
      'keys',
      'create',
      '--org',
      'keyed',
      '--scope',
      'billing:read',
      '--expires',
      '1h',
      '--json',
    )
    const { id, key } = made.json() as { id: string; key: string }
    expect(made.json()).toEqual({
      id,
      key,
      org: 'keyed',
      name: null,
      scopes: 'billing:read',
      admin: false,
      created_at: '2030-01-01T00:00:00.000Z',
      expires_at: '2030-01-01T01:00:00.000Z',
    })
    expect(isWellFormedKey(key)).toBe(true)

    const shown = await tollgate('keys', 'create', '--org', 'keyed', '--scope', 'full_access', '--admin')
    expect(shown.stdout).toMatch(/"keyed": full_access, admin, never expires\.\n.*\n\nsvc_live_[0-9A-Za-z]{24}\n$/)

    const listed = await tollgate('keys', 'list', '--org', 'keyed')
    expect(listed.stdout).toMatch(/^ID +ORG +NAME +STATE +SCOPES\n/)
    expect(listed.stdout).toMatch(new RegExp(`${id}  keyed  -     to 2030-01-01 +billing:read\n`))
    expect(listed.stdout).not.toContain('svc_live_')

    expect((await tollgate('keys', 'revoke', id)).stdout).toBe(`Revoked the key ${id}.\n`)
    await clock.turn(1)
    const again = await tollgate('keys', 'list', '--json')
    expect(JSON.parse(again.stdout)).toContainEqual(
      expect.objectContaining({ id, state: 'revoked', revoked_at: '2030-01-01T00:00:00.000Z' }),
    )
  })

  test('serve and migrate hand over', async () => {
    expect(await tollgate('serve', '--port', '0', '--json')).toMatchObject({ exitCode: 7, stdout: '', stderr: '' })
    expect(served).toMatchObject([{ json: true, config: { port: 0, host: '127.0.0.1', adminPort: 9464 } }])
    expect((await tollgate('migrate')).stdout).toBe(
      'Applied 20261122-0000-baseline.sql.\nThe database schema is up to date.\n',
    )
    expect(opened.at(-1)).toMatchObject({ patient: true })
  })

  test('the catalog and the configuration are shown without a database', async () => {
    const listed = await tollgate('models', 'list', '--json')
    expect(JSON.parse(listed.stdout)[0]).toMatchObject({
      id: 'svc/sandbox',
      economy: { input_usd_per_1m_tokens: '0.50' },
    })
    expect((await tollgate('models', 'list')).stdout).toContain('svc/sandbox:economy')
    expect((await tollgate('config', 'check')).stdout).toMatch(/^There is no settings file \/\S+\/tollgate\.yaml: /)
    expect(opened).toEqual([])
  })
})

describe('mistakes', () => {
  test.each([
    [2, ['keys', 'lst'], 'there is no command "keys lst"; did you mean "keys list"? (see "tollgate keys --help")'],
    [2, ['keys', 'create', '--org', 'x', '--scope', 'all'], 'The scope is not valid: "all" is not a scope'],
    [
      2,
      ['keys', 'create', '--org', 'x', '--scope', 'read_only', '--expires', '1y'],
      'The expiry "1y" is not understood',
    ],
    [2, ['credits', 'grant', '--org', 'x', '--usd', '-5.00'], '--usd needs a value'],
    [2, ['credits', 'grant', '--org', 'x', '--usd', '1e3'], '--usd "1e3" is not an amount'],
    [2, ['models', 'pull', 'qwen'], '"qwen" is not a model file: use hf:OWNER/REPO/FILE.gguf'],
    [2, ['models', 'pull', 'hf:a/../b.gguf'], 'is not a model file'],
    [2, ['serve', '--port', '70000'], "--port: '70000' is not a port"],
    [1, ['config', 'check', '--config', 'run.ts'], 'run.ts:1:'],
    [
      1,
      ['keys', 'create', '--org', 'nobody', '--scope', 'read_only'],
      'There is no organization named "nobody": check the name.',
    ],
    [
      1,
      ['credits', 'grant', '--org', 'nobody', '--usd', '5'],
      'There is no organization named "nobody": check the name.',
    ],
    [1, ['keys', 'list', '--org', 'nobody'], 'There is no organization named "nobody": check the name.'],
    [1, ['keys', 'revoke', 'nonsense'], 'There is no key with the id "nonsense": check the id.'],
    [1, ['orgs', 'create', ' '], 'The name " " can\'t be used'],
  ])('exit code %p, nothing on stdout, one sentence a line on stderr: %p', async (exitCode, argv, sentence) => {
    const plain = await tollgate(...argv)
    expect(plain).toMatchObject({ exitCode, stdout: '' })
    expect(plain.stderr).toContain(sentence)
    for (const line of plain.stderr.trimEnd().split('\n')) expect(line).toStartWith('tollgate: ')

    const json = await tollgate(...argv, '--json')
    expect(json).toMatchObject({ exitCode, stdout: '' })
    expect(JSON.parse(json.stderr).error.message).toContain(sentence)
    expect(released).toBe(opened.length)
  })

  test('a database that can’t be opened is one line, whatever its text', async () => {
    failure = new Error('no connection\n  at all')
    expect(await tollgate('orgs', 'list')).toMatchObject({
      exitCode: 1,
      stdout: '',
      stderr: 'tollgate: no connection; at all\n',
    })
  })

  test('a fault of our own is named as one, with its place', async () => {
    failure = new TypeError('x is not a function')
    expect((await tollgate('orgs', 'list')).stderr).toMatch(
      /^tollgate: this is a fault in Tollgate, please report it: TypeError: x is not a function \(at .*run\.test\.ts.*\)\n$/,
    )
  })

  test('a database that can’t be reached says what to check', async () => {
    const closed = openClient('postgres://nobody@127.0.0.1:1/none', { maxConnections: 1, clock })
    failure = await closed.query('select 1').then(
      () => undefined,
      (error: Error) => error,
    )
    await closed.close()
    const { exitCode, stderr } = await tollgate('orgs', 'list')
    expect(exitCode).toBe(1)
    expect(stderr).toMatch(
      /^tollgate: the database can't be reached \(.+\): check that it runs and that DATABASE_URL names it\n$/,
    )
  })

  test('an organization’s name is not taken twice', async () => {
    await organization('once')
    expect(await tollgate('orgs', 'create', 'once')).toMatchObject({
      exitCode: 1,
      stderr: 'tollgate: There is already an organization named "once".\n',
    })
  })
})

describe('a pulled model', () => {
  const PULL = ['models', 'pull', 'hf:owner/repo/tiny-Q4.gguf']

  test('prints its SHA-256; without a settings file it is found by itself', async () => {
    const { stdout, stderr } = await tollgate(...PULL)
    expect(stdout).toBe(
      `/data/models/tiny-Q4.gguf\nSHA-256 ${'ab'.repeat(32)}\nThe next "tollgate serve" finds and serves it.\n`,
    )
    expect(stderr).toBe('')
  })

  test('without a file, the engine alone is installed', async () => {
    const { exitCode, stdout, stderr } = await tollgate('models', 'pull')
    expect([exitCode, stdout]).toEqual([0, 'The engine for GGUF files is installed.\n'])
    expect(stderr).toBe('Installing the engine for GGUF files (0.7 GB, once) ...\n')
  })

  test('where there is a settings file, the lines to add are good settings', async () => {
    const { stdout } = await tollgate(...PULL, '--config', 'run.ts')
    const lines = stdout.slice(stdout.indexOf('providers:'))
    const loaded = loadSettings(lines, {
      environment: {},
      directory: '/',
      fileExists: (file) => file.startsWith('/data/'),
    })
    expect(loaded).toMatchObject({ ok: true, settings: { models: [{ id: 'svc/tiny-q4', status: 'active' }] } })
  })
})

test('the client of Kubernetes is installed for instances', async () => {
  const { exitCode, stdout, stderr } = await tollgate('instances', 'install')
  expect([exitCode, stdout]).toEqual([0, 'The client of Kubernetes is installed.\n'])
  expect(stderr).toBe('Installing the client of Kubernetes (70 MB, once) ...\n')
})
