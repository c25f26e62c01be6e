/** Device logins on the whole gateway: a program asks for a key, a person decides in a browser. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { openAskedGateway } from '../../../../test/acceptance/ask.ts'
import { type AccountsHouse, openAccountsHouse } from '../../../../test/accountsHouse.ts'
import { TurnedClock } from '../../../../test/clock.ts'
import { until } from '../../../../test/until.ts'
import type { Visitor } from '../../../../test/visitor.ts'

const GRANT = 'urn:ietf:params:oauth:grant-type:device_code'
const CLIENT = { client_id: 'tollgate-cli' }
const ALL = { serverless: 'write', billing: 'write', webhooks: 'write', instances: 'write' }
const ENTER = '/account/device'

interface Begun {
  readonly device_code: string
  readonly user_code: string
}

let house: AccountsHouse
let owner: Visitor
/** Each group of tests has one of its own: how many codes a person may type is bounded. */
let member: Visitor
beforeAll(async () => {
  house = await openAccountsHouse()
  owner = await house.owner()
  member = await house.join(owner, 'member@example.com')
}, 60_000)
afterAll(() => house.gateway.close())

let machines = 0

/** Sends a request of a program, from a machine of its own unless given. */
function post(path: string, body: object, address?: string, at = house) {
  machines += 1
  return at.gateway.ask({
    path: `/manage/v1/device/${path}`,
    body: { ...CLIENT, ...body },
    address: address ?? `203.0.113.${machines % 250}`,
  })
}

async function begin(body: object = {}, at = house): Promise<Begun> {
  const { status, json } = await post('code', { name: 'laptop', ...body }, undefined, at)
  expect(status).toBe(200)
  return json as Begun
}

/** Asks for the key; the word of the refusal, or the key. */
async function exchange({
  device_code,
}: Pick<Begun, 'device_code'>): Promise<{ error?: string; access_token?: string }> {
  const { json } = await post('token', { grant_type: GRANT, device_code })
  return json as { error?: string; access_token?: string }
}

/** Types a code; returns the path of the page on which the login is decided, null where the code does not work. */
async function claim(browser: Visitor, { user_code: code }: Pick<Begun, 'user_code'>): Promise<string | null> {
  return (await browser.fill(ENTER, { code })).location
}

const denialOf = (path: string) => path.replace('/approve?', '/deny?')
const approve = (browser: Visitor, path: string, fields: Record<string, string> = ALL) =>
  browser.fill(ENTER, fields, { action: path })

async function claimed(browser: Visitor, body: object = {}): Promise<Begun & { path: string }> {
  const begun = await begin(body)
  return { ...begun, path: (await claim(browser, begun)) ?? '' }
}

async function keysNamed(name: string) {
  return house.gateway.database.query<{ scopes: string; admin: boolean; member_id: string; days: number }>(
    `select scopes, admin, member_id, extract(epoch from expires_at - created_at)::int / 86400 as days from api_keys where name = $1`,
    [name],
  )
}

const canRead = async (key: string, path: string) => (await house.gateway.get({ key } as never, path)).status === 200

describe('a login', () => {
  test('gives a key of the member with the name of the machine, for 90 days, with the scopes that were left', async () => {
    const begun = await begin({ name: 'whole way' })
    expect({ ...begun }).toMatchObject({
      user_code: expect.stringMatching(/^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/),
      verification_uri: 'http://127.0.0.1:8080/account/device',
      expires_in: 600,
      interval: 5,
    })
    expect(await exchange(begun)).toMatchObject({ error: 'authorization_pending' })
    const path = (await claim(member, { user_code: begun.user_code.toLowerCase().replace('-', ' ') })) ?? ''
    const { text } = await member.open(path)
    for (const shown of ['<bdi>whole way</bdi>', '203.0.113.', '“default”']) expect(text).toContain(shown)
    expect(text).not.toContain('name="admin"')
    const approved = await approve(member, path, {
      serverless: 'write',
      billing: 'read',
      webhooks: 'none',
      instances: 'none',
    })
    expect([approved.status, approved.text]).toEqual([200, expect.stringContaining('Approved')])

    const { access_token: key = '', ...rest } = await exchange(begun)
    expect(rest).toEqual({
      token_type: 'Bearer',
      expires_in: 90 * 86_400,
      scope: 'serverless:write,billing:read',
    } as object)
    const { member_id: memberId } = await (await member.call('GET', '/manage/v1/session')).json()
    expect(await keysNamed('whole way')).toEqual([
      { scopes: 'serverless:write,billing:read', admin: false, member_id: memberId, days: 90 },
    ])
    expect(await canRead(key, '/billing/balance')).toBe(true)
    expect(await canRead(key, '/webhook-endpoints')).toBe(false)
    const { data } = await (await owner.call('GET', '/manage/v1/audit?limit=2')).json()
    expect(data.map(({ action }: { action: string }) => action)).toEqual(['key.created', 'device_login.approved'])
    expect(data[1]).toMatchObject({ actor: { kind: 'user', address: member.address }, after: { name: 'whole way' } })
  })

  test('gives one key, of two requests at the same time too', async () => {
    const begun = await claimed(member, { name: 'twice' })
    await approve(member, begun.path)
    const answers = await Promise.all([exchange(begun), exchange(begun)])
    expect(answers.map(({ error }) => error ?? 'key').sort()).toEqual(['expired_token', 'key'])
    expect(await exchange(begun)).toMatchObject({ error: 'expired_token' })
    expect(await keysNamed('twice')).toHaveLength(1)
  })

  test('that was denied gives none, and is approved no more', async () => {
    const begun = await claimed(member, { name: 'denied' })
    expect((await member.fill(begun.path, {}, { action: denialOf(begun.path) })).text).toContain('Denied')
    expect(await exchange(begun)).toMatchObject({ error: 'access_denied' })
    expect((await approve(member, begun.path)).status).toBe(404)
    expect(await exchange(begun)).toMatchObject({ error: 'access_denied' })
    expect(await keysNamed('denied')).toEqual([])
  })

  test('gives no right that the page does not show, as to instances on a server without them', async () => {
    const begun = await claimed(member, { name: 'all of it' })
    expect((await member.open(begun.path)).text).not.toContain('nstances')
    await approve(member, begun.path)
    const given = 'serverless:write,billing:write,webhooks:write'
    expect(await exchange(begun)).toMatchObject({ scope: given } as object)
    expect(await keysNamed('all of it')).toMatchObject([{ scopes: given }])
  })

  test('of a program that asks too soon is slowed down, and gives its key all the same', async () => {
    const begun = await begin({ name: 'hasty' })
    const intervals = async () =>
      (
        await house.gateway.database.query<{ s: number }>(
          "select interval_seconds as s from device_logins where name = 'hasty'",
        )
      )[0]?.s
    expect(await exchange(begun)).toMatchObject({ error: 'authorization_pending' })
    expect([(await exchange(begun)).error, await intervals()]).toEqual(['slow_down', 10])
    expect([(await exchange(begun)).error, await intervals()]).toEqual(['slow_down', 15])
    await house.gateway.database.query(
      "update device_logins set polled_at = polled_at - interval '15 seconds' where name = 'hasty'",
    )
    expect(await exchange(begun)).toMatchObject({ error: 'authorization_pending' })
    await approve(member, (await claim(member, begun)) ?? '')
    expect((await exchange(begun)).access_token).toBeString()
  })
})

describe('a code', () => {
  beforeAll(async () => {
    member = await house.join(owner, 'second@example.com')
  }, 60_000)

  test('that is unknown, has expired, was used, or that another session has claimed is answered alike', async () => {
    const expired = await begin({ name: 'expired' })
    await house.gateway.database.query(
      "update device_logins set expires_at = now() - interval '1 minute' where name = 'expired'",
    )
    const used = await claimed(member)
    await approve(member, used.path)
    await exchange(used)
    const others = await claimed(owner)
    const unknown = { device_code: 'x'.repeat(32), user_code: 'BCDF-GHJK' }
    const bare = (text: string) => text.replace(/value="[^"]*"/g, '')
    const answers: [number, string, string | null][] = []
    for (const each of [unknown, expired, used, others]) {
      const { status, text, location } = await member.fill(ENTER, { code: each.user_code })
      answers.push([status, bare(text), location])
    }
    expect(answers.map((each) => JSON.stringify(each))).toEqual(answers.map(() => JSON.stringify(answers[0])))
    expect(answers[0]?.[0]).toBe(422)
    const refused = [await exchange(unknown), await exchange(expired), await exchange(used)]
    expect(refused).toEqual([refused[0], refused[0], refused[0]] as typeof refused)
    expect(refused[0]).toMatchObject({ error: 'expired_token' })
  })

  test('that a session has claimed is shown to, approved and denied by no other, not of the same person either', async () => {
    const begun = await claimed(member, { name: 'claimed' })
    const again = house.browser()
    await again.fill('/account/sign-in', { email: 'second@example.com', password: 'a long enough phrase' })
    for (const browser of [owner, again]) {
      expect(await claim(browser, begun)).toBeNull()
      expect((await browser.open(begun.path)).status).toBe(404)
      for (const action of [begun.path, denialOf(begun.path)])
        expect((await browser.fill('/account', ALL, { action })).status).toBe(404)
    }
    expect(await exchange(begun)).toMatchObject({ error: 'authorization_pending' })
    expect((await approve(member, begun.path)).status).toBe(200)
  })

  test('that expires between its claim and the approval gives nothing', async () => {
    const begun = await claimed(member, { name: 'late' })
    await house.gateway.database.query(
      "update device_logins set expires_at = now() - interval '1 minute' where name = 'late'",
    )
    expect((await approve(member, begun.path)).status).toBe(404)
    expect(await exchange(begun)).toMatchObject({ error: 'expired_token' })
  })

  test('and its key are in no row and no log', async () => {
    const begun = await claimed(member, { name: 'secret' })
    const rows = async () =>
      (
        await house.gateway.database.query<{ row: string }>(
          'select t::text as row from device_logins t union all select t::text from audit_entries t union all select t::text from api_keys t',
        )
      )
        .map(({ row }) => row)
        .join('\n')
    const before = await rows()
    await approve(member, begun.path)
    const { access_token: key = '' } = await exchange(begun)
    const all = [before, await rows(), ...house.gateway.logs].join('\n')
    expect(key).not.toBe('')
    for (const secret of [begun.device_code, begun.user_code, begun.user_code.replace('-', ''), key])
      expect(all.includes(secret)).toBe(false)
  })

  test('is asked of people who are signed in, and the sign-in leads back to it', async () => {
    const browser = house.browser()
    const { location } = await browser.open(ENTER)
    expect(location).toBe('/account/sign-in?next=device')
    const fields = { email: 'member@example.com', password: 'a long enough phrase' }
    expect((await browser.fill(location ?? '', fields)).location).toBe(ENTER)
    const elsewhere = await house.browser().fill('/account/sign-in?next=https://evil.test', fields)
    expect(elsewhere.location).toBe('/account')
  })
})

describe('the rights of the key', () => {
  beforeAll(async () => {
    member = await house.join(owner, 'third@example.com')
  }, 60_000)

  test('are never more than was asked for, and never none', async () => {
    const begun = await claimed(owner, { name: 'narrow', scope: 'serverless:read' })
    const { text } = await owner.open(begun.path)
    expect(text).not.toContain('value="write"')
    for (const fields of [
      { ...ALL, billing: 'none', webhooks: 'none', instances: 'none' },
      { serverless: 'read', billing: 'read', webhooks: 'none', instances: 'none' },
      { serverless: 'none', billing: 'none', webhooks: 'none', instances: 'none' },
      { serverless: 'all', billing: 'none', webhooks: 'none', instances: 'none' },
      {},
    ])
      expect((await approve(owner, begun.path, fields as Record<string, string>)).status).toBe(422)
    expect(await exchange(begun)).toMatchObject({ error: 'authorization_pending' })
    expect(
      (await approve(owner, begun.path, { serverless: 'read', billing: 'none', webhooks: 'none', instances: 'none' }))
        .status,
    ).toBe(200)
  })

  test("are an admin's only where an admin ticks them", async () => {
    const forged = await claimed(member, { name: 'forged' })
    expect((await approve(member, forged.path, { ...ALL, admin: 'yes' })).status).toBe(422)
    const [plain, ticked] = [await claimed(owner, { name: 'plain' }), await claimed(owner, { name: 'ticked' })]
    expect((await owner.open(plain.path)).text).toContain('name="admin"')
    await approve(owner, plain.path)
    await approve(owner, ticked.path, { ...ALL, admin: 'yes' })
    const [one, other] = [await exchange(plain), await exchange(ticked)]
    const isAdmins = async ({ access_token: key = '' }) => canRead(key, '/manage/v1/members')
    expect([await isAdmins(one), await isAdmins(other)]).toEqual([false, true])
  })

  test("are an admin's only with every right: less makes no keys and invites nobody, and the page says so", async () => {
    const lowered = await claimed(owner, { name: 'lowered' })
    const answer = await approve(owner, lowered.path, { ...ALL, webhooks: 'read', admin: 'yes' })
    expect([answer.status, answer.text]).toEqual([
      422,
      expect.stringContaining('With an admin’s rights a program needs'),
    ])
    // The chosen values are still in the form.
    expect(answer.text).toContain('<option value="read" selected>')
    expect(answer.text).toContain('name="admin" value="yes" checked')
    expect(await exchange(lowered)).toMatchObject({ error: 'authorization_pending' })
    const narrow = await claimed(owner, { name: 'narrow', scope: 'billing:write' })
    expect((await owner.open(narrow.path)).text).not.toContain('name="admin"')
    expect((await approve(owner, narrow.path, { billing: 'write', admin: 'yes' })).status).toBe(422)
  })

  test('are none once the role was taken away, or the member removed, before the program has its key', async () => {
    const admin = await house.join(owner, 'admin@example.com', 'admin')
    const { member_id: id } = await (await admin.call('GET', '/manage/v1/session')).json()
    const [demoted, removed] = [await claimed(admin, { name: 'demoted' }), await claimed(admin, { name: 'removed' })]
    await approve(admin, demoted.path, { ...ALL, admin: 'yes' })
    await approve(admin, removed.path)
    await owner.call('PATCH', `/manage/v1/members/${id}`, { role: 'member' })
    expect(await exchange(demoted)).toMatchObject({ error: 'access_denied' })
    await owner.call('DELETE', `/manage/v1/members/${id}`)
    expect(await exchange(removed)).toMatchObject({ error: 'access_denied' })
    expect([...(await keysNamed('demoted')), ...(await keysNamed('removed'))]).toEqual([])
  })
})

describe('a key', () => {
  test('ends itself, whatever its rights, and no other', async () => {
    const make = async () =>
      (await (await member.call('POST', '/manage/v1/keys', { scope: 'billing:read' })).json()) as {
        id: string
        key: string
      }
    const [one, other] = [await make(), await make()]
    const end = (key: string) => house.gateway.ask({ method: 'DELETE', path: '/manage/v1/key', key })
    expect((await end(one.key)).status).toBe(204)
    // Told by a notification of the database.
    await until(async () => !(await canRead(one.key, '/billing/balance')))
    expect(await canRead(other.key, '/billing/balance')).toBe(true)
    expect((await end(one.key)).status).toBe(401)
    expect((await member.call('DELETE', '/manage/v1/key')).status).toBe(401)
    const { data } = await (await owner.call('GET', '/manage/v1/audit?limit=1')).json()
    expect(data[0]).toMatchObject({ action: 'key.revoked', subject_id: one.id, actor: { kind: 'api_key', id: one.id } })
  })
})

describe('what may be tried', () => {
  let still: AccountsHouse
  beforeAll(async () => {
    // Time stands still: a slow machine would give tokens back meanwhile.
    still = await openAccountsHouse({ clock: new TurnedClock(Date.now()) })
  }, 60_000)
  afterAll(() => still.gateway.close())

  test('is bounded for logins: by address, an IPv6 line as one, and in total; a first one passes all the same', async () => {
    const from = async (address: string) => (await post('code', {}, address, still)).status
    const line: number[] = []
    for (let count = 0; count < 12; count += 1) line.push(await from(`2001:db8:0:${count.toString(16)}::1`))
    expect(line).toEqual([...Array(10).fill(200), 429, 429])
    // Nine of the line and seven of each of these addresses are further ones: 13 addresses use up all 100.
    const all: number[] = []
    for (let count = 0; count < 107; count += 1) all.push(await from(`192.0.2.${count >> 3}`))
    expect(all).toEqual([...Array(105).fill(200), 429, 429])
    expect([await from('198.51.100.1'), await from('198.51.100.1')]).toEqual([200, 429])
  }, 60_000)

  test('is bounded for codes that a person types, from wherever; the right one too', async () => {
    const browser = await still.owner()
    const type = async (code: string) => (await browser.fill(ENTER, { code })).status
    const answers: number[] = []
    for (let count = 0; count < 12; count += 1) answers.push(await type(count < 10 ? 'BCDF-GHJK' : 'nonsense'))
    expect(answers).toEqual([...Array(10).fill(422), 429, 429])
  }, 60_000)
})

test('open logins are bounded by the table, and the sweep removes those that have expired', async () => {
  const { database } = house.gateway
  await database.query(
    `insert into device_logins (id, device_hash, user_hash, name, address, scopes, state, interval_seconds, created_at, expires_at)
     select gen_random_uuid(), sha256(n::text::bytea), sha256(('u' || n)::bytea), 'many', '', 'full_access', 'open', 5, now(), now() + interval '5 minutes'
     from generate_series(1, 1000) n`,
  )
  expect((await post('code', {})).status).toBe(429)
  await database.query("update device_logins set expires_at = now() - interval '1 minute' where name = 'many'")
  expect((await post('code', {})).status).toBe(200)
})

test.each([
  ['code', { client_id: 'another' }],
  ['code', { name: 'two\nlines' }],
  ['code', { scope: 'everything' }],
  ['token', { grant_type: 'password', device_code: 'x' }],
  ['token', { grant_type: GRANT }],
])('the fields of %s are checked: %j', async (path, body) => {
  expect((await post(path, body)).status).toBe(422)
})

test('without accounts there is no login, no page, and no description of either', async () => {
  const bare = await openAskedGateway()
  for (const path of ['/manage/v1/device/code', '/manage/v1/device/token'])
    expect((await bare.ask({ path, body: CLIENT })).status).toBe(404)
  expect((await bare.send(ENTER)).status).toBe(404)
  expect(Object.keys(bare.managed.paths)).not.toEqual(expect.arrayContaining(['/device/code']))
  expect(Object.keys(house.gateway.managed.paths)).toEqual(
    expect.arrayContaining(['/device/code', '/device/token', '/key']),
  )
  await bare.close()
}, 60_000)
