/** Organizations that are deleted, through the whole gateway: by their owners, on the page, and by operators. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import {
  type DeletionHouse,
  type Furnished,
  OPERATED,
  ORGANIZATION,
  type OwnedOrganization,
  openDeletionHouse,
} from '../../../test/deletionHouse.ts'

let stage: DeletionHouse
beforeAll(async () => {
  stage = await openDeletionHouse()
}, 60_000)
afterAll(() => stage.close())

const CALL = { model: 'svc/demo', messages: [{ role: 'user', content: 'Hello' }] }
const PASSWORD = 'a long enough phrase'

const send = async (response: Promise<Response>) => {
  const { status } = await response
  return status
}

describe('a deletion by an owner', () => {
  let acme: OwnedOrganization
  let given: Furnished
  let beta: OwnedOrganization
  let ofBeta: Furnished
  let before: string

  /** Everything that an organization has, but for figures that its running videos change. */
  async function everythingOf({ id }: OwnedOrganization): Promise<string> {
    const tables = ['api_keys', 'members', 'invitations', 'webhook_endpoints', 'auto_pay', 'subscriptions', 'payments']
    const rows = [await stage.rows('audit_entries', id), await stage.rows('holds', id)]
    for (const table of tables) rows.push(await stage.rows(table, id))
    const { database } = stage.house.gateway
    const logins = await database.query(
      'select 1 from device_logins where member_id in (select id from members where organization_id = $1)',
      [id],
    )
    return JSON.stringify([rows.map((each) => each.toSorted()), logins.length])
  }

  beforeAll(async () => {
    acme = await stage.register('Acme', 'ann@example.com')
    given = await stage.furnish(acme)
    beta = await stage.register('Beta', 'bob@example.com')
    ofBeta = await stage.furnish(beta)
    before = await everythingOf(beta)
    expect(await stage.remove(acme)).toBe(204)
    await stage.erased(acme.id)
  }, 60_000)

  test('ends its keys, in this process and for good', async () => {
    for (const key of given.keys) {
      const answer = await stage.house.gateway.ask({ path: '/chat/completions', key, body: CALL })
      expect(answer).toMatchObject({ status: 401, json: { error: { code: 'invalid_api_key' } } })
    }
    expect(await stage.rows('api_keys', acme.id, 'revoked_at is null or name is not null')).toEqual([])
  })

  test('signs its people out, who keep their accounts and are members of nothing', async () => {
    for (const { browser, email } of [
      { browser: acme.owner, email: acme.email },
      { browser: given.member, email: `member-of-${acme.email}` },
    ]) {
      expect(await send(stage.house.gateway.send('/manage/v1/session', { headers: cookiesOf(browser) }))).toBe(401)
      expect((await browser.fill('/account/sign-in', { email, password: PASSWORD })).location).toBe('/account')
      expect(await send(stage.house.gateway.send('/manage/v1/session', { headers: cookiesOf(browser) }))).toBe(403)
      expect((await browser.open('/account')).text).toContain('You are a member of no organization')
    }
    expect(await stage.rows('members', acme.id, 'removed_at is null')).toEqual([])
    expect(await stage.rows('invitations', acme.id)).toEqual([])
  })

  test('leaves nothing that runs, is due, or could pay', async () => {
    const { database } = stage.house.gateway
    expect(await stage.rows('videos', acme.id, "status <> 'cancelled' or prompt is not null")).toEqual([])
    expect(await stage.rows('videos', acme.id)).toHaveLength(given.videos.length)
    expect(await stage.rows('instances', acme.id, "state <> 'terminating' or name <> app")).toEqual([])
    expect(await stage.rows('operations', acme.id)).toEqual([])
    for (const table of ['holds', 'webhook_endpoints', 'webhook_deliveries', 'webhook_events', 'notices'])
      expect([table, await stage.rows(table, acme.id)]).toEqual([table, []])
    expect(await stage.rows('jobs', acme.id, "kind <> 'organization_erasure'")).toEqual([])
    expect(await stage.rows('auto_pay', acme.id, 'is_enabled or is_suspended')).toEqual([])
    expect(await stage.rows('subscriptions', acme.id, "status <> 'canceled'")).toEqual([])
    const accounts = await database.query(
      'select held_microcents, auto_pay_threshold_microcents, auto_pay_due_at from accounts where organization_id = $1',
      [acme.id],
    )
    expect(accounts).toEqual([{ held_microcents: 0n, auto_pay_threshold_microcents: null, auto_pay_due_at: null }])
    expect(await stage.rows('payments', acme.id, 'checkout_url is not null or receipt_url is not null')).toEqual([])
    expect(await stage.rows('payments', acme.id, "state = 'open' and not is_replaced")).toEqual([])
  })

  test('keeps the ledger, the charges and the payments, and the books agree', async () => {
    expect(await stage.rows('ledger_entries', acme.id)).toHaveLength(2)
    expect(await stage.rows('payments', acme.id, "state = 'paid'")).toHaveLength(1)
    expect(await stage.disagreements()).toEqual([])
  })

  test('keeps in the audit log what was done when and by whom, without names and addresses', async () => {
    const entries = await stage.house.gateway.database.query<{ action: string; actor_id: string | null }>(
      'select action, actor_kind, actor_id, address, before, after from audit_entries where organization_id = $1 order by id',
      [acme.id],
    )
    const of = (action: string) => entries.filter((each) => each.action === action)
    expect(of('invitation.created')).toEqual([
      expect.objectContaining({ actor_kind: 'user', address: null, before: null, after: { role: 'member' } }),
      expect.objectContaining({ actor_kind: 'user', address: null, before: null, after: { role: 'member' } }),
    ])
    expect(of('key.created')[0]).toMatchObject({ after: { admin: true, scope: 'full_access' } })
    expect(of('organization.changed')).toEqual([expect.objectContaining({ before: {}, after: {} })])
    const ended = { members: 2, keys: 2, videos: 3, instances: 1, webhook_endpoints: 2, subscriptions: 1 }
    expect(of('organization.deleted')).toEqual([expect.objectContaining({ before: ended, address: null })])
    for (const { actor_id: id } of entries) expect(id).toEqual(expect.any(String))
    const [deletion] = of('organization.deleted')
    expect(deletion?.actor_id).toBe(of('organization.registered')[0]?.actor_id ?? '')
  })

  test('changes nothing of another organization', async () => {
    expect(await everythingOf(beta)).toBe(before)
    const [key] = ofBeta.keys
    if (key === undefined) throw new Error('no key')
    expect((await stage.house.gateway.post(key, '/chat/completions', CALL)).status).toBe(200)
    expect(await stage.rows('videos', beta.id, "status = 'cancelled'")).toEqual([])
    expect(await send(beta.owner.call('GET', '/manage/v1/session'))).toBe(200)
  })

  test('is shown to operators with its balance, and is a missing one to everything else of theirs', async () => {
    const { operator } = stage
    const shown = await (await operator.call('GET', `${OPERATED}/${acme.id}`)).json()
    expect(shown).toMatchObject({
      name: `deleted ${acme.id}`,
      notify_addresses: [],
      deleted_at: expect.any(String),
      balance_microcents: '7000000000',
      held_microcents: '0',
      plan_status: 'canceled',
    })
    const { data } = await (await operator.call('GET', OPERATED)).json()
    const listed = data.find(({ id }: { id: string }) => id === acme.id)
    expect(listed).toMatchObject({ deleted_at: shown.deleted_at, balance_microcents: '7000000000' })
    expect(data.find(({ id }: { id: string }) => id === beta.id).deleted_at).toBeNull()
    const answers = [
      operator.call('POST', `${OPERATED}/${acme.id}/credits`, { amount_cents: 5 }),
      operator.call('POST', `${OPERATED}/${acme.id}/freezes`, { reason: 'operator' }),
      operator.call('DELETE', `${OPERATED}/${acme.id}/freezes/operator`),
      operator.call('DELETE', `${OPERATED}/${acme.id}`, { name: `deleted ${acme.id}` }),
    ]
    for (const answer of answers) expect(await send(answer)).toBe(404)
  })
})

const cookiesOf = ({ cookies }: { readonly cookies: ReadonlyMap<string, string> }) => ({
  Cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; '),
})

describe('a person with two organizations', () => {
  test('acts for the other one after a deletion, and the same request again deletes nothing', async () => {
    const first = await stage.register('Twice', 'eve@example.com')
    const second = await stage.register('Twice', 'mallory@example.com')
    await second.owner.call('POST', '/manage/v1/invitations', { email: first.email })
    const path = await stage.house.linkTo(first.email)
    expect((await first.owner.fill(path, {})).location).toBe('/account')
    // Accepting made the session act for the second one.
    await first.owner.call('PATCH', '/manage/v1/session', { organization_id: first.id })
    await stage.house.gateway.database.query("update members set role = 'owner' where organization_id = $1", [
      second.id,
    ])
    const key = { 'Idempotency-Key': crypto.randomUUID() }
    const body = { organization_id: first.id, name: 'Twice' }
    const followed = await stage.house.gateway.send('/manage/v1/events', { headers: cookiesOf(first.owner) })
    expect(await send(first.owner.call('DELETE', ORGANIZATION, body, key))).toBe(204)
    const { organization } = await (await first.owner.call('GET', '/manage/v1/session')).json()
    expect(organization.id).toBe(second.id)
    // A stream of the first one's events ends, although its session lives.
    expect(await followed.text()).not.toContain('data:')
    for (const headers of [{}, key])
      expect(await send(first.owner.call('DELETE', ORGANIZATION, body, headers))).toBe(404)
    expect(await send(second.owner.call('GET', ORGANIZATION))).toBe(200)
    expect(await send(first.owner.call('PATCH', '/manage/v1/session', { organization_id: first.id }))).toBe(404)
  })
})

describe('is refused, and nothing changes,', () => {
  let gamma: OwnedOrganization
  let given: Furnished
  beforeAll(async () => {
    gamma = await stage.register('Gamma', 'gil@example.com')
    given = await stage.furnish(gamma)
  }, 60_000)
  const state = async () => JSON.stringify(await stage.house.gateway.database.query('select * from organizations'))

  test.each([
    ['another name', { name: 'gamma' }, 422],
    ['no name', { name: undefined }, 422],
    ['the name of a stranger', { name: 'Gamma'.repeat(100) }, 422],
    ['no id', { organization_id: undefined }, 422],
    ['a thing that is no id', { organization_id: 'Gamma' }, 422],
    ['the id of nobody', { organization_id: crypto.randomUUID() }, 404],
    ['an unknown field', { force: true }, 422],
  ])('with %s', async (_name, more, status) => {
    const was = await state()
    expect(await stage.remove(gamma, more)).toBe(status)
    expect(await state()).toBe(was)
  })

  test("with another organization's id, as with one of nobody", async () => {
    const other = await stage.register('Delta', 'dee@example.com')
    const foreign = await gamma.owner.call('DELETE', ORGANIZATION, { organization_id: other.id, name: 'Delta' })
    const missing = await gamma.owner.call('DELETE', ORGANIZATION, {
      organization_id: crypto.randomUUID(),
      name: 'Delta',
    })
    const { request_id: _one, ...told } = await foreign.json()
    const { request_id: _other, ...toldOfNobody } = await missing.json()
    expect([foreign.status, told]).toEqual([404, toldOfNobody])
    expect(await send(other.owner.call('GET', ORGANIZATION))).toBe(200)
  })

  test('for a member, an admin, and every key', async () => {
    const body = { organization_id: gamma.id, name: 'Gamma' }
    expect(await send(given.member.call('DELETE', ORGANIZATION, body))).toBe(403)
    const admin = await stage.house.join(gamma.owner, 'admin@example.com', 'admin')
    expect(await send(admin.call('DELETE', ORGANIZATION, body))).toBe(403)
    for (const key of given.keys)
      expect((await stage.house.gateway.ask({ method: 'DELETE', path: ORGANIZATION, key, body })).status).toBe(401)
  })

  test('for an owner who has signed in more than ten minutes ago', async () => {
    const { database } = stage.house.gateway
    const turn = (by: string) =>
      database.query(
        `update sessions set created_at = created_at + $2::interval
         where user_id in (select user_id from members where organization_id = $1)`,
        [gamma.id, by],
      )
    await turn('-11 minutes')
    const answer = await gamma.owner.call('DELETE', ORGANIZATION, { organization_id: gamma.id, name: 'Gamma' })
    expect(answer.status).toBe(403)
    expect((await answer.json()).detail).toContain('Sign in again')
    await turn('11 minutes')
  })

  test('where an operator would be left without an organization', async () => {
    const { operator, house } = stage
    const body = { organization_id: house.organizationId, name: 'default' }
    for (const answer of [
      await operator.call('DELETE', ORGANIZATION, body),
      await operator.call('DELETE', `${OPERATED}/${house.organizationId}`, { name: 'default' }),
    ]) {
      expect(answer.status).toBe(422)
      expect((await answer.json()).detail).toContain('operators remove EMAIL')
    }
    expect(await send(operator.call('GET', ORGANIZATION))).toBe(200)
  })
})

describe('on the page of the account', () => {
  const FORM = { action: '/account/delete-organization' }

  test('an owner types the name, and is signed out; others see no such form', async () => {
    const own = await stage.register('Pages & Co', 'pam@example.com')
    const member = await stage.house.join(own.owner, 'mo@example.com', 'admin')
    const page = (await own.owner.open('/account')).text
    expect(page).toContain('action="/account/delete-organization"')
    expect((await member.open('/account')).text).not.toContain('delete-organization')
    const wrong = await own.owner.fill('/account', { organization: own.id, name: 'Pages' }, FORM)
    expect([wrong.status, wrong.text.includes('The name is not this organization')]).toEqual([422, true])
    const other = await own.owner.fill('/account', { organization: crypto.randomUUID(), name: own.name }, FORM)
    expect(other.status).toBe(422)
    const foreign = await own.owner.fill('/account', { organization: own.id, name: own.name, csrf: 'x' }, FORM)
    expect(foreign.status).toBe(403)
    const byMember = await member.fill('/account', { organization: own.id, name: own.name }, FORM)
    expect([byMember.status, byMember.text.includes('Only an owner')]).toEqual([422, true])
    const { database } = stage.house.gateway
    await database.query("update sessions set created_at = created_at - interval '11 minutes'")
    expect((await own.owner.fill('/account', { organization: own.id, name: own.name }, FORM)).status).toBe(403)
    await database.query("update sessions set created_at = created_at + interval '11 minutes'")
    const done = await own.owner.fill('/account', { organization: own.id, name: ` ${own.name} ` }, FORM)
    expect([done.status, done.text]).toEqual([
      200,
      expect.stringContaining('“Pages &amp; Co” is deleted. You are a member of no other'),
    ])
    expect(own.owner.cookies.has('tollgate_session')).toBe(false)
    expect((await member.open('/account')).location).toBe('/account/sign-in')
  })
})

describe('a deletion by an operator', () => {
  test('needs the name, and is in the audit log as an operator’s', async () => {
    const own = await stage.register('Epsilon', 'eli@example.com')
    const path = `${OPERATED}/${own.id}`
    expect(await send(stage.operator.call('DELETE', path, { name: 'Delta' }))).toBe(422)
    expect(await send(stage.operator.call('DELETE', `${OPERATED}/nonsense`, { name: 'Epsilon' }))).toBe(404)
    expect(await send(own.owner.call('DELETE', path, { name: 'Epsilon' }))).toBe(404)
    expect(await send(stage.operator.call('DELETE', path, { name: 'Epsilon' }))).toBe(204)
    expect(await send(stage.operator.call('DELETE', path, { name: 'Epsilon' }))).toBe(404)
    const entries = await stage.house.gateway.database.query(
      "select actor_kind, address from audit_entries where organization_id = $1 and action = 'organization.deleted'",
      [own.id],
    )
    expect(entries).toEqual([{ actor_kind: 'operator', address: null }])
  })

  test('frees the name for another organization', async () => {
    const make = () => stage.operator.call('POST', OPERATED, { name: 'Reused' })
    const made = await (await make()).json()
    expect(await send(make())).toBe(422)
    expect(await send(stage.operator.call('DELETE', `${OPERATED}/${made.id}`, { name: 'Reused' }))).toBe(204)
    expect(await send(make())).toBe(201)
  })
})
