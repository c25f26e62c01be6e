/** The management interface of people and keys on the whole gateway: roles, members, invitations, keys, sessions, the audit log. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type AccountsHouse, openAccountsHouse } from '../../../test/accountsHouse.ts'
import { until } from '../../../test/until.ts'
import type { Visitor } from '../../../test/visitor.ts'

let house: AccountsHouse
let owner: Visitor
let admin: Visitor
let member: Visitor
beforeAll(async () => {
  house = await openAccountsHouse()
  owner = await house.owner()
  admin = await house.join(owner, 'admin@example.com', 'admin')
  member = await house.join(owner, 'member@example.com')
}, 60_000)
afterAll(() => house.gateway.close())

const json = async (response: Response | Promise<Response>) => (await response).json()
const who = (browser: Visitor) => json(browser.call('GET', '/manage/v1/session'))
const status = async (response: Promise<Response>) => (await response).status

/** Makes a key by a session; returns the body of the answer. */
async function makeKey(browser: Visitor, more: object = {}) {
  const made = await browser.call('POST', '/manage/v1/keys', { name: 'k', scope: 'full_access', ...more })
  return { status: made.status, ...(await made.json()) }
}

const canCall = async (key: string) => (await house.gateway.get({ key } as never, '/billing/balance')).status === 200

async function invite(browser: Visitor, email: string, role: string) {
  return status(browser.call('POST', '/manage/v1/invitations', { email, role }))
}

describe('a session', () => {
  test('says who is signed in, for which organization and as what', async () => {
    expect(await who(admin)).toMatchObject({
      user: { email: 'admin@example.com', operator: false },
      organization: { id: house.organizationId, name: 'default' },
      role: 'admin',
    })
    expect(await who(owner)).toMatchObject({ user: { operator: true }, role: 'owner' })
  })

  test('lists its own alone, marks the current one, and ends others', async () => {
    const again = house.browser()
    await again.fill('/account/sign-in', { email: 'member@example.com', password: 'a long enough phrase' })
    const { data } = await json(member.call('GET', '/manage/v1/sessions'))
    expect(data.map((each: { current: boolean }) => each.current)).toEqual([false, true])
    expect(await status(admin.call('DELETE', `/manage/v1/sessions/${data[0].id}`))).toBe(404)
    expect(await status(member.call('DELETE', `/manage/v1/sessions/${data[0].id}`))).toBe(204)
    expect((await again.open('/account')).location).toBe('/account/sign-in')
  })

  test('is read by no key', async () => {
    const { key } = await makeKey(owner, { admin: true, owner: 'organization' })
    for (const path of ['/manage/v1/session', '/manage/v1/sessions'])
      expect((await house.gateway.get({ key } as never, path)).status).toBe(401)
  })

  test('has pages of its lists', async () => {
    const first = await json(owner.call('GET', '/manage/v1/audit?limit=1'))
    const second = await json(owner.call('GET', `/manage/v1/audit?limit=1&cursor=${first.next_cursor}`))
    expect([first.data.length, second.data.length]).toEqual([1, 1])
    expect(first.data[0].id > second.data[0].id).toBe(true)
    expect(await status(owner.call('GET', `/manage/v1/members?cursor=${first.next_cursor}`))).toBe(422)
  })
})

describe('keys', () => {
  test('a member makes its own, and sees and changes no other', async () => {
    const own = await makeKey(member)
    const others = await makeKey(admin)
    const { member_id: memberId } = await who(member)
    expect(own).toMatchObject({ status: 201, admin: false, member_id: memberId, state: 'active' })
    expect(await canCall(own.key)).toBe(true)
    const { data } = await json(member.call('GET', '/manage/v1/keys'))
    expect(data.map(({ id }: { id: string }) => id)).toEqual([own.id])
    expect(JSON.stringify(data)).not.toContain(own.key)
    for (const [method, path, body] of [
      ['PATCH', '', { name: 'mine' }],
      ['POST', '/rotate', {}],
      ['DELETE', '', undefined],
    ] as const)
      expect(await status(member.call(method, `/manage/v1/keys/${others.id}${path}`, body))).toBe(404)
    expect(await canCall(others.key)).toBe(true)
  })

  test("a member makes no admin's key and none of the organization; an admin does, and sees all", async () => {
    for (const more of [{ admin: true }, { owner: 'organization' }])
      expect((await makeKey(member, more)).status).toBe(403)
    const made = await makeKey(admin, { admin: true, owner: 'organization', expires: '30d' })
    expect(made).toMatchObject({ status: 201, admin: true, member_id: null })
    const { data } = await json(admin.call('GET', '/manage/v1/keys'))
    expect(data.length).toBeGreaterThan(2)
  })

  test('of an admin with the full scope make keys of the organization; others make none', async () => {
    const full = await makeKey(admin, { admin: true, owner: 'organization' })
    const post = (key: string, body: object) =>
      house.gateway.post({ key } as never, '/manage/v1/keys', { scope: 'read_only', ...body })
    const made = await post(full.key, {})
    expect([made.status, (await made.json()).member_id]).toEqual([201, null])
    expect(await status(post(full.key, { owner: 'member' }))).toBe(422)
    const narrow = await makeKey(admin, { admin: true, scope: 'serverless:write,billing:write' })
    const plain = await makeKey(admin)
    for (const { key } of [narrow, plain]) expect(await status(post(key, {}))).toBe(403)
  })

  test('are rotated with an overlap: both work, then the new one', async () => {
    const old = await makeKey(member)
    const next = await json(member.call('POST', `/manage/v1/keys/${old.id}/rotate`, { overlap_seconds: 3_600 }))
    expect([await canCall(old.key), await canCall(next.key)]).toEqual([true, true])
    const { data } = await json(member.call('GET', '/manage/v1/keys'))
    const shown = data.find(({ id }: { id: string }) => id === old.id)
    expect(Date.parse(shown.expires_at) - Date.now()).toBeLessThanOrEqual(3_600_000)
    const last = await json(member.call('POST', `/manage/v1/keys/${next.id}/rotate`, { overlap_seconds: 0 }))
    expect(await canCall(last.key)).toBe(true)
    await until(async () => !(await canCall(next.key)))
  })

  test('of a member are rotated by that member alone: an admin would be shown a key in the name of another', async () => {
    const { id } = await makeKey(member)
    expect(await status(admin.call('POST', `/manage/v1/keys/${id}/rotate`, {}))).toBe(403)
    expect(await status(admin.call('PATCH', `/manage/v1/keys/${id}`, { name: 'seen' }))).toBe(200)
    expect(await status(admin.call('DELETE', `/manage/v1/keys/${id}`))).toBe(204)
  })

  test('whose name has half a character are refused', async () => {
    for (const name of ['\ud800', 'x\udfffy']) expect((await makeKey(member, { name })).status).toBe(422)
  })

  test('that were revoked are refused at once; what has ended is not rotated', async () => {
    const made = await makeKey(member)
    expect(await canCall(made.key)).toBe(true)
    expect(await status(member.call('DELETE', `/manage/v1/keys/${made.id}`))).toBe(204)
    await until(async () => !(await canCall(made.key)))
    expect(await status(member.call('POST', `/manage/v1/keys/${made.id}/rotate`, {}))).toBe(422)
    expect(await status(member.call('DELETE', `/manage/v1/keys/${made.id}`))).toBe(204)
  })

  test('are made once for each Idempotency-Key', async () => {
    const headers = { 'Idempotency-Key': crypto.randomUUID() }
    const body = { name: 'once', scope: 'read_only' }
    const first = await json(member.call('POST', '/manage/v1/keys', body, headers))
    const again = await json(member.call('POST', '/manage/v1/keys', body, headers))
    expect(again).toEqual(first)
  })
})

describe('invitations', () => {
  test('are for their address alone', async () => {
    expect(await invite(admin, 'new@example.com', 'member')).toBe(201)
    const path = await house.linkTo('new@example.com')
    expect((await house.browser().open(path)).text).toContain('new@example.com')
    const guest = house.browser()
    const fields = { email: 'member@example.com', name: 'M', new_password: 'long enough phrase' }
    const stranger = await guest.fill(path, fields)
    expect(stranger.location).toBe('/account')
    const [{ email } = { email: '' }] = await house.gateway.database.query<{ email: string }>(
      "select u.email from members m join users u on u.id = m.user_id where u.email like 'new@%'",
    )
    expect(email).toBe('new@example.com')
    expect((await house.browser().open(path)).status).toBe(404)
  })

  test('to somebody with an account elsewhere are accepted by that session alone', async () => {
    const { database } = house.gateway
    const other = await house.gateway.customer()
    await database.query(
      `insert into invitations (id, organization_id, email, role, created_at, expires_at)
       select gen_random_uuid(), organization_id, 'member@example.com', 'member', now(), now() + interval '1 day'
       from api_keys where id = $1`,
      [other.id],
    )
    await database.query(
      `insert into jobs (kind, organization_id, payload, due_at)
       select 'account link', organization_id, jsonb_build_object('purpose', 'invitation', 'invitationId', id), now()
       from invitations where email = 'member@example.com' and accepted_at is null`,
    )
    const path = await house.linkTo('member@example.com')
    expect((await house.browser().open(path)).status).toBe(403)
    expect((await admin.open(path)).status).toBe(403)
    expect(await member.fill(path, {})).toMatchObject({ status: 303, location: '/account' })
    expect((await who(member)).organization.id).not.toBe(house.organizationId)
    const back = { organization_id: house.organizationId }
    expect(await json(member.call('PATCH', '/manage/v1/session', back))).toMatchObject({
      organization: { name: 'default' },
    })
    expect(await status(admin.call('PATCH', '/manage/v1/session', { organization_id: crypto.randomUUID() }))).toBe(404)
  })

  test('a newer one withdraws an older one, whose link ends', async () => {
    await invite(admin, 'twice@example.com', 'member')
    const first = await house.linkTo('twice@example.com')
    await invite(admin, 'twice@example.com', 'admin')
    const second = await house.linkTo('twice@example.com')
    expect([(await house.browser().open(first)).status, (await house.browser().open(second)).status]).toEqual([
      404, 200,
    ])
    const { data } = await json(admin.call('GET', '/manage/v1/invitations?limit=2'))
    expect(data.map(({ state }: { state: string }) => state)).toEqual(['open', 'withdrawn'])
    expect(await status(admin.call('DELETE', `/manage/v1/invitations/${data[0].id}`))).toBe(204)
    expect((await house.browser().open(second)).status).toBe(404)
    expect(await status(admin.call('DELETE', `/manage/v1/invitations/${data[0].id}`))).toBe(404)
  })

  test('of owners are withdrawn and replaced by owners alone; the log has what a newer one replaced', async () => {
    const invited = async () => {
      const { data } = await json(owner.call('GET', '/manage/v1/invitations?limit=1'))
      return data[0] as { id: string; state: string }
    }
    expect(await invite(owner, 'next@example.com', 'owner')).toBe(201)
    const first = await invited()
    expect(await status(admin.call('DELETE', `/manage/v1/invitations/${first.id}`))).toBe(403)
    expect(await invite(admin, 'next@example.com', 'member')).toBe(403)
    expect(await invited()).toMatchObject({ id: first.id, state: 'open' })
    expect(await invite(owner, 'next@example.com', 'admin')).toBe(201)
    const { data } = await json(owner.call('GET', '/manage/v1/audit?limit=2'))
    expect(data.map(({ action }: { action: string }) => action).sort()).toEqual([
      'invitation.created',
      'invitation.withdrawn',
    ])
    expect(await status(admin.call('DELETE', `/manage/v1/invitations/${(await invited()).id}`))).toBe(204)
  })

  test("end with the role of their maker: on demotion, on removal, and those of the maker's keys", async () => {
    const maker = await house.join(owner, 'maker@example.com', 'owner')
    const { member_id: id } = await who(maker)
    const state = async (email: string) => {
      const { data } = await json(owner.call('GET', '/manage/v1/invitations?limit=50'))
      return data.find((each: { email: string }) => each.email === email)?.state
    }
    for (const role of ['owner', 'admin', 'member'])
      expect(await invite(maker, `${role}@maker.example`, role)).toBe(201)
    const { key } = await makeKey(maker, { admin: true })
    const byKey = { email: 'key@maker.example', role: 'admin' }
    expect(await status(house.gateway.post({ key } as never, '/manage/v1/invitations', byKey))).toBe(201)
    const path = await house.linkTo('owner@maker.example')

    await owner.call('PATCH', `/manage/v1/members/${id}`, { role: 'admin' })
    expect([await state('owner@maker.example'), await state('admin@maker.example')]).toEqual(['withdrawn', 'open'])
    expect((await house.browser().open(path)).status).toBe(404)
    expect(await invite(maker, 'again@maker.example', 'member')).toBe(201)
    const other = await house.linkTo('again@maker.example')
    await owner.call('DELETE', `/manage/v1/members/${id}`)
    for (const name of ['admin', 'member', 'key', 'again'])
      expect([name, await state(`${name}@maker.example`)]).toEqual([name, 'withdrawn'])
    expect((await house.browser().open(other)).status).toBe(404)
    const { data } = await json(owner.call('GET', '/manage/v1/audit?limit=6'))
    expect(data.filter(({ action }: { action: string }) => action === 'invitation.withdrawn')).toHaveLength(4)
  })

  test.each<[string, () => Visitor, string, string, number]>([
    ['a member invites nobody', () => member, 'x@example.com', 'member', 403],
    ['an admin makes no owner', () => admin, 'x@example.com', 'owner', 403],
    ['a member is not invited again', () => admin, 'MEMBER@example.com', 'member', 422],
    ['no address', () => admin, 'nobody', 'member', 422],
    ['a host alone', () => admin, 'somebody@localhost', 'member', 422],
    ['an address of a network', () => admin, 'somebody@127.0.0.1', 'member', 422],
    ['an owner makes an owner', () => owner, 'owner2@example.com', 'owner', 201],
  ])('%s', async (_name, by, email, role, expected) => {
    expect(await invite(by(), email, role)).toBe(expected)
  })
})

describe('members', () => {
  test('the last owner stays one, and stays', async () => {
    const { member_id: id } = await who(owner)
    expect(await status(owner.call('PATCH', `/manage/v1/members/${id}`, { role: 'admin' }))).toBe(422)
    expect(await status(owner.call('DELETE', `/manage/v1/members/${id}`))).toBe(422)
    for (const role of ['member', 'admin'])
      expect(await status(admin.call('PATCH', `/manage/v1/members/${id}`, { role }))).toBe(403)
    expect(await status(admin.call('DELETE', `/manage/v1/members/${id}`))).toBe(403)
  })

  test('of two owners who leave at the same time one stays', async () => {
    const second = await house.join(owner, 'second@example.com', 'owner')
    const ids = [(await who(owner)).member_id, (await who(second)).member_id]
    const answers = await Promise.all([
      status(owner.call('PATCH', `/manage/v1/members/${ids[0]}`, { role: 'admin' })),
      status(second.call('PATCH', `/manage/v1/members/${ids[1]}`, { role: 'admin' })),
    ])
    expect(answers.sort()).toEqual([200, 422])
    await house.gateway.database.query("update members set role = 'owner' where id = $1", [ids[0] ?? ''])
  })

  test("whose role is taken away lose their keys' admin rights at once, and get them back with it", async () => {
    const other = await house.join(owner, 'demoted@example.com', 'admin')
    const { member_id: id } = await who(other)
    const { key } = await makeKey(other, { admin: true })
    const list = () => house.gateway.get({ key } as never, '/manage/v1/members')
    expect((await list()).status).toBe(200)
    expect(await status(owner.call('PATCH', `/manage/v1/members/${id}`, { role: 'member' }))).toBe(200)
    await until(async () => (await list()).status === 403)
    expect(await canCall(key)).toBe(true)
    expect(await status(other.call('GET', '/manage/v1/invitations'))).toBe(403)
    await owner.call('PATCH', `/manage/v1/members/${id}`, { role: 'admin' })
    await until(async () => (await list()).status === 200)
  })

  test('who are removed lose keys and sessions; keys of the organization stay', async () => {
    const other = await house.join(owner, 'removed@example.com', 'admin')
    const { member_id: id } = await who(other)
    const own = await makeKey(other, { admin: true })
    const shared = await makeKey(other, { owner: 'organization' })
    expect(await status(owner.call('DELETE', `/manage/v1/members/${id}`))).toBe(204)
    expect((await other.open('/account')).location).toBe('/account/sign-in')
    await until(async () => !(await canCall(own.key)))
    expect(await canCall(shared.key)).toBe(true)
    const signedIn = await other.fill('/account/sign-in', {
      email: 'removed@example.com',
      password: 'a long enough phrase',
    })
    expect(signedIn.location).toBe('/account')
    expect((await other.open('/account')).text).toContain('You are a member of no organization')
    expect((await house.gateway.send('/manage/v1/keys', { headers: cookieOf(other) })).status).toBe(403)
  })

  test('leave by themselves', async () => {
    const other = await house.join(owner, 'leaver@example.com')
    const { member_id: id } = await who(other)
    const { member_id: adminId } = await who(admin)
    expect(await status(other.call('DELETE', `/manage/v1/members/${adminId}`))).toBe(403)
    expect(await status(other.call('DELETE', `/manage/v1/members/${id}`))).toBe(204)
  })

  test('leave on their page, once they say that they are sure; the last owner does not', async () => {
    const leave = { action: '/account/leave' }
    const other = await house.join(owner, 'leaving@example.com')
    const { key } = await makeKey(other)
    const organization = house.organizationId
    expect((await other.fill('/account', { organization }, leave)).status).toBe(422)
    expect((await other.fill('/account', { organization: crypto.randomUUID(), sure: 'yes' }, leave)).status).toBe(422)
    expect(await canCall(key)).toBe(true)
    const gone = await other.fill('/account', { organization, sure: 'yes' }, leave)
    expect([gone.location, (await other.open('/account')).location]).toEqual(['/account/sign-in', '/account/sign-in'])
    await until(async () => !(await canCall(key)))
    const { data } = await json(owner.call('GET', '/manage/v1/audit?limit=1'))
    expect(data).toMatchObject([{ action: 'member.removed', actor: { kind: 'user', address: other.address } }])
    const { data: members } = await json(owner.call('GET', '/manage/v1/members?limit=50'))
    const { member_id: ownId } = await who(owner)
    for (const { id, role } of members)
      if (role === 'owner' && id !== ownId) await owner.call('PATCH', `/manage/v1/members/${id}`, { role: 'admin' })
    const last = await owner.fill('/account', { organization, sure: 'yes' }, leave)
    expect([last.status, last.text]).toEqual([422, expect.stringContaining('last owner')])
  })
})

test('an admin sets who is told of limits; a member reads it', async () => {
  const change = { notify_addresses: ['ops@example.com'] }
  expect(await status(member.call('PATCH', '/manage/v1/organization', change))).toBe(403)
  expect(await json(admin.call('PATCH', '/manage/v1/organization', change))).toMatchObject(change)
  expect(await json(member.call('GET', '/manage/v1/organization'))).toMatchObject({ name: 'default', ...change })
  expect(await status(admin.call('PATCH', '/manage/v1/organization', { notify_addresses: ['no address'] }))).toBe(422)
})

describe('the audit log', () => {
  test('tells who changed what, from where, and no secret', async () => {
    const made = await makeKey(admin, { name: 'audited' })
    await admin.call('PATCH', `/manage/v1/keys/${made.id}`, { name: 'renamed' })
    const { data } = await json(owner.call('GET', '/manage/v1/audit?limit=2'))
    const { user } = await who(admin)
    expect(data).toMatchObject([
      {
        action: 'key.changed',
        actor: { kind: 'user', id: user.id, address: admin.address },
        subject_id: made.id,
        before: { name: 'audited' },
        after: { name: 'renamed' },
      },
      { action: 'key.created', before: null, after: { name: 'audited' } },
    ])
    const all = JSON.stringify(await house.gateway.database.query('select before, after from audit_entries'))
    expect(all).not.toContain(made.key)
  })

  test('a refused change leaves no entry', async () => {
    const count = async () => (await house.gateway.database.query('select 1 from audit_entries')).length
    const before = await count()
    await makeKey(member, { admin: true })
    await invite(admin, 'x@example.com', 'owner')
    expect(await count()).toBe(before)
  })
})

function cookieOf(browser: Visitor) {
  return { Cookie: [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ') }
}
