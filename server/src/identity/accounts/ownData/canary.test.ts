/**
 * A person goes every way that leaves something behind, under names that are found again. The export has all of them and no secret of
 * any table. After the erasure no row of any table has one, and the log still says what happened.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { ACCOUNT_SETTINGS, type AccountsHouse, OWNER, openAccountsHouse } from '../../../../test/accountsHouse.ts'
import { type MailServer, openMailServer } from '../../../../test/mailServer.ts'
import { passkeyOptionsIn, softPasskey } from '../../../../test/softPasskey.ts'
import { until } from '../../../../test/until.ts'
import { BROWSER_ORIGIN, type Visitor } from '../../../../test/visitor.ts'

const SETTINGS = ACCOUNT_SETTINGS.replace('accounts: {}', 'accounts: { passkeys: true, registration: true }')
const PASSWORD = 'a long enough phrase'
const NAME = 'Canary Nameson'
const FORMER = 'canary-former@example.com'
const EMAIL = 'canary-present@example.com'
const ADDRESS = '203.0.113.77'
const GUEST = 'guest@example.com'

/** All that names the person. */
const canaries: Record<string, string> = {
  NAME,
  FORMER,
  EMAIL,
  ADDRESS,
  passkey: 'canary passkey',
  'renamed passkey': 'canary renamed',
  key: 'canary key',
  machine: 'canary-machine',
  subject: 'canary-subject-4711',
}
/** Secrets of the person. The export has none of them, in no form. */
const secrets: Record<string, string> = { PASSWORD }

/** While it is closed, mails are under way for ever. */
let gate: Promise<void> | null = null
let openGate = () => {}
const closeGate = () => {
  gate = new Promise((resolve) => {
    openGate = resolve
  })
}

let mailServer: MailServer
let house: AccountsHouse
let owner: Visitor
let person: Visitor
let userId: string
let exported: string
let logBefore: LogRow[]

interface LogRow {
  readonly id: string
  readonly action: string
  readonly actor_id: string | null
  readonly subject_id: string | null
  readonly address: string | null
  readonly before: Record<string, unknown> | null
  readonly after: Record<string, unknown> | null
}

const rows = <Row>(text: string, parameters: string[] = []) => house.gateway.database.query<Row>(text, parameters)
const log = () =>
  rows<LogRow>('select id, action, actor_id, subject_id, address, before, after from audit_entries order by id')
const json = async (response: Response | Promise<Response>) => (await response).json()

async function changeAddress() {
  const fields = { email: EMAIL, password: PASSWORD }
  await person.fill('/account', fields, { action: '/account/new-address' })
  await person.fill(await house.linkTo(EMAIL), {})
}

async function addPasskey(name: string) {
  const { text } = await person.open('/account/passkeys/new')
  const options = passkeyOptionsIn(text)
  const device = softPasskey(BROWSER_ORIGIN)
  const answer = device.register(options)
  const action = '/account/passkeys/new'
  await person.fill('/account', { name, answer }, { action })
}

async function renamePasskey() {
  const [{ id = '' } = {}] = await rows<{ id: string }>('select id from passkeys')
  const renamed = { passkey: id, name: 'canary renamed' }
  await person.fill('/account', renamed, { action: '/account/passkeys/rename' })
}

/** Logs a program in; returns its key, or null where the login stays claimed. */
async function logIn(isApproved: boolean): Promise<string | null> {
  const client = { client_id: 'tollgate-cli' }
  const begin = { path: '/manage/v1/device/code', body: { ...client, name: 'canary-machine' }, address: ADDRESS }
  const { json: begun } = await house.gateway.ask(begin)
  const { user_code: code, device_code: device } = begun as { user_code: string; device_code: string }
  secrets[`device code ${isApproved}`] = device
  const path = (await person.fill('/account/device', { code })).location ?? ''
  if (!isApproved) return null
  const all = { serverless: 'write', billing: 'write', webhooks: 'write', instances: 'write' }
  await person.fill('/account/device', all, { action: path })
  const grant = { ...client, grant_type: 'urn:ietf:params:oauth:grant-type:device_code', device_code: device }
  const { json: token } = await house.gateway.ask({ path: '/manage/v1/device/token', body: grant })
  return (token as { access_token: string }).access_token
}

/** Makes, uses and rotates keys by a session and by a key. */
async function useKeys() {
  const body = { name: 'canary key', scope: 'full_access', admin: true }
  const made = await json(person.call('POST', '/manage/v1/keys', body))
  const next = await json(person.call('POST', `/manage/v1/keys/${made.id}/rotate`, {}))
  const invited = { email: 'another@example.com' }
  await house.gateway.send('/manage/v1/invitations', {
    method: 'POST',
    headers: { Authorization: `Bearer ${next.key}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(invited),
    address: ADDRESS,
  })
  Object.assign(secrets, { key: made.key, 'rotated key': next.key, "program's key": (await logIn(true)) ?? '' })
  await logIn(false)
}

/** Mails to the person that wait, links that are not used, and an open invitation from elsewhere. */
async function leaveWaiting() {
  const { organizationId } = await house.gateway.customer()
  await rows(
    `insert into members (id, organization_id, user_id, role, created_at, removed_at)
     values (gen_random_uuid(), $1, $2, 'owner', now() - interval '2 days', now() - interval '1 day')`,
    [organizationId, userId],
  )
  await rows(
    `insert into invitations (id, organization_id, email, role, created_at, expires_at)
     values (gen_random_uuid(), $1, $2, 'member', now(), now() + interval '1 day')`,
    [organizationId, EMAIL],
  )
  const notify = { notify_addresses: ['Ops@example.com', 'Canary-Present@Example.com'] }
  await owner.call('PATCH', '/manage/v1/organization', notify)
  await rows(
    `insert into linked_identities (id, user_id, issuer, subject, created_at)
     values (gen_random_uuid(), $1, 'https://login.example', $2, now())`,
    [userId, 'canary-subject-4711'],
  )
  await house.browser().fill('/account/forgotten', { email: EMAIL })
  await house.linkTo(EMAIL)
  closeGate()
  await house.browser().fill('/account/register', { email: EMAIL })
  await addPasskey('another passkey')
  await rows(
    `insert into jobs (kind, organization_id, payload, due_at)
     select 'account link', organization_id, jsonb_build_object('purpose', 'invitation', 'invitationId', id), now()
     from invitations where email = $1 and accepted_at is null`,
    [EMAIL],
  )
  await person.open('/account/passkeys/new')
}

beforeAll(async () => {
  mailServer = await openMailServer({ onMail: async () => gate ?? undefined })
  house = await openAccountsHouse({ mailServer, settings: SETTINGS })
  owner = await house.owner()
  await owner.call('POST', '/manage/v1/invitations', { email: FORMER, role: 'admin' })
  person = house.browser(ADDRESS)
  await person.fill(await house.linkTo(FORMER), { name: NAME, new_password: PASSWORD })
  userId = (await json(person.call('GET', '/manage/v1/session'))).user.id
  await changeAddress()
  await addPasskey('canary passkey')
  await renamePasskey()
  await useKeys()
  await person.call('POST', '/manage/v1/invitations', { email: GUEST })
  await leaveWaiting()
  const other = house.browser(ADDRESS)
  await other.fill('/account/sign-in', { email: EMAIL, password: PASSWORD })
  for (const [name, { cookies }] of Object.entries({ person, other })) {
    secrets[`session of ${name}`] = cookies.get('tollgate_session') ?? ''
    secrets[`mark of ${name}`] = cookies.get('tollgate_browser') ?? ''
  }
  logBefore = await log()
}, 120_000)
afterAll(async () => {
  openGate()
  await house.gateway.close()
  await mailServer.close()
})

/** The rows of every table that have one of the canaries, by table. */
async function found(): Promise<[string, string][]> {
  const tables = await rows<{ name: string }>(
    `select quote_ident(table_name) as name from information_schema.tables
     where table_schema = 'public' and table_type = 'BASE TABLE'`,
  )
  expect(tables.length).toBeGreaterThan(20)
  const hits: [string, string][] = []
  for (const { name } of tables) {
    for (const { row } of await rows<{ row: string }>(`select t::text as row from ${name} t`)) {
      const text = row.toLowerCase()
      for (const [canary, value] of Object.entries(canaries)) {
        const hex = Buffer.from(value).toString('hex')
        if (text.includes(value.toLowerCase()) || text.includes(hex)) hits.push([name, canary])
      }
    }
  }
  return hits
}

describe('before', () => {
  test('each canary is in some table, and each secret is one', async () => {
    const hits = await found()
    expect([...new Set(hits.map(([, canary]) => canary))].sort()).toEqual(Object.keys(canaries).sort())
    expect([...new Set(hits.map(([table]) => table))]).toEqual(
      expect.arrayContaining([
        'api_keys',
        'audit_entries',
        'device_logins',
        'invitations',
        'jobs',
        'linked_identities',
        'organizations',
        'passkeys',
        'sessions',
        'users',
      ]),
    )
    for (const [name, secret] of Object.entries(secrets)) expect([name, secret.length >= 16]).toEqual([name, true])
  })
})

describe('the export', () => {
  test('is a file', async () => {
    const answer = await person.call('GET', '/manage/v1/account/export')
    exported = await answer.text()
    expect([answer.status, answer.headers.get('Content-Type')]).toEqual([200, 'application/json'])
    expect(answer.headers.get('Content-Disposition')).toMatch(/^attachment; filename="own-data-\d{4}-\d\d-\d\d\.json"$/)
    expect(answer.headers.get('Cache-Control')).toBe('no-store')
  })

  test('has every canary, and something in each list', () => {
    for (const [name, value] of Object.entries(canaries)) expect([name, exported.includes(value)]).toEqual([name, true])
    const file = JSON.parse(exported)
    const empty = Object.entries(file).filter(([, list]) => Array.isArray(list) && list.length === 0)
    expect(empty.map(([name]) => name)).toEqual([])
    expect(file.user).toMatchObject({ id: userId, name: NAME, email: EMAIL, operator: false })
    expect(file.memberships.map(({ removed_at: at }: { removed_at: string | null }) => at === null).sort()).toEqual([
      false,
      true,
    ])
    expect(file.invitations_sent.map(({ email }: { email: string }) => email).sort()).toEqual([
      'another@example.com',
      GUEST,
    ])
    expect(file.sessions).toHaveLength(2)
  })

  test('has what others did to the person, and not who they are nor where they were', () => {
    const { audit_entries: entries } = JSON.parse(exported)
    const invited = entries.find(({ own, action }: { own: boolean; action: string }) => !own && /created$/.test(action))
    expect(invited).toMatchObject({ actor: { kind: 'user', id: null, address: null }, after: { email: FORMER } })
    expect(exported).not.toContain(owner.address)
    expect(exported).not.toContain(OWNER.email)
  })

  test('has no secret, and nothing of any column that holds one', async () => {
    for (const [name, secret] of Object.entries(secrets))
      expect([name, exported.includes(secret)]).toEqual([name, false])
    const columns = await rows<{ table: string; column: string; type: string }>(
      `select table_name as table, column_name as column, data_type as type from information_schema.columns
       where table_schema = 'public' and (data_type = 'bytea' or column_name in ('token', 'password'))`,
    )
    const names = columns.map(({ table, column }) => `${table}.${column}`)
    for (const known of ['sessions.token', 'credentials.password', 'api_keys.hash', 'account_links.hash'])
      expect(names).toContain(known)
    let values = 0
    for (const { table, column } of columns) {
      const held = await rows<{ value: string | Uint8Array }>(
        `select ${column} as value from ${table} where ${column} is not null`,
      )
      for (const { value } of held) {
        const bytes = Buffer.from(value)
        const forms = [bytes.toString('hex'), bytes.toString('base64'), bytes.toString('base64url')]
        if (typeof value === 'string') forms.push(value)
        values += 1
        for (const form of forms.filter(({ length }) => length > 8))
          expect([table, column, exported.includes(form)]).toEqual([table, column, false])
      }
    }
    expect(values).toBeGreaterThan(10)
  })
})

describe('after the erasure', () => {
  beforeAll(async () => {
    const erased = await person.fill('/account', { password: PASSWORD, sure: 'yes' }, { action: '/account/erase' })
    expect([erased.status, erased.text]).toEqual([200, expect.stringContaining('Your account is erased')])
  })

  test('the address is in the job of the last mail alone, until that mail is sent', async () => {
    expect(await found()).toEqual([['jobs', 'EMAIL']])
    expect(await rows("select kind from jobs where payload::text like '%canary%'")).toEqual([{ kind: 'last mail' }])
    openGate()
    gate = null
    await until(async () => (await rows("select 1 from jobs where kind = 'last mail' and state = 'done'")).length === 1)
    expect(await found()).toEqual([])
    const last = mailServer.mails.filter(({ to }) => to === EMAIL).at(-1)
    expect(last?.text).toContain('Subject: Your account was erased')
    expect(last?.text).not.toContain(NAME)
  })

  test('the log still says what happened, by an id that names nobody', async () => {
    const after = await log()
    const kept = after.slice(0, logBefore.length)
    expect(kept.map(({ id, action, actor_id, subject_id }) => [id, action, actor_id, subject_id])).toEqual(
      logBefore.map(({ id, action, actor_id, subject_id }) => [id, action, actor_id, subject_id]),
    )
    const mine = kept.filter(({ actor_id: id }) => id === userId)
    expect(mine.length).toBeGreaterThan(8)
    expect(mine.map(({ address }) => address)).toEqual(mine.map(() => null))
    const entryOf = (action: string) => kept.find((each) => each.action === action)
    expect(entryOf('address.changed')).toMatchObject({ before: { email: 'erased' }, after: { email: 'erased' } })
    expect(entryOf('passkey.renamed')).toMatchObject({ before: { name: 'erased' }, after: { name: 'erased' } })
    expect(entryOf('device_login.approved')?.after).toMatchObject({ name: 'erased', machine_address: 'erased' })
    expect(entryOf('invitation.created')?.after).toEqual({ email: 'erased', role: 'admin' })
    expect(entryOf('organization.changed')?.after).toEqual({ notify_addresses: 'Ops@example.com, erased' })
    expect(kept.some(({ after: fields }) => fields?.['email'] === GUEST)).toBe(true)
    const added = after.slice(logBefore.length).map(({ action }) => action)
    expect(added.sort()).toEqual([
      'invitation.withdrawn',
      'invitation.withdrawn',
      'member.removed',
      'organization.changed',
      'person.erased',
    ])
  })

  test('entries of others are as they were', async () => {
    const after = new Map((await log()).map((each) => [each.id, each]))
    const others = logBefore.filter(({ actor_id: id }) => id !== userId && id !== null)
    expect(others.length).toBeGreaterThan(1)
    const own = (await json(owner.call('GET', '/manage/v1/session'))).user.id
    for (const { id, address, actor_id: actorId } of others)
      if (actorId === own) expect(after.get(id)?.address).toBe(address)
  })

  test('memberships and keys stay, end, and name nobody', async () => {
    expect(
      await rows(
        'select user_id, count(*)::integer as n, bool_and(removed_at is not null) as ended from members group by 1 order by n',
      ),
    ).toEqual([
      { user_id: expect.any(String), n: 1, ended: false },
      { user_id: null, n: 2, ended: true },
    ] as never)
    const keys = await rows<{ name: string | null; ended: boolean }>(
      'select name, revoked_at is not null as ended from api_keys where member_id is not null',
    )
    expect(keys).toEqual(keys.map(() => ({ name: null, ended: true })))
    expect(keys).toHaveLength(3)
  })

  test('no log of the server has had the name or an address', () => {
    const text = house.gateway.logs.join('\n')
    expect(text.length).toBeGreaterThan(1_000)
    for (const value of [NAME, EMAIL, FORMER]) expect(text).not.toContain(value)
  })
})
