/** Strangers who register on the whole gateway. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { ACCOUNT_SETTINGS, type AccountsHouse, OWNER, openAccountsHouse } from '../../../../test/accountsHouse.ts'
import { type MailServer, openMailServer } from '../../../../test/mailServer.ts'
import type { Visitor } from '../../../../test/visitor.ts'
import { BROWSER_ORIGIN } from '../../../../test/visitor.ts'
import { systemClock } from '../../../infra/clock.ts'
import { systemRandom } from '../../../infra/random.ts'
import { makeLink } from '../links/link.ts'

const OPEN = `accounts: { registration: true }\npublic_url: ${BROWSER_ORIGIN}\n`
const FIELDS = { name: 'Eve', organization: 'default', new_password: 'a long enough phrase' }

let mailServer: MailServer
let house: AccountsHouse
let owner: Visitor
beforeAll(async () => {
  mailServer = await openMailServer()
  house = await openAccountsHouse({ mailServer, settings: OPEN })
  owner = await house.owner()
}, 60_000)
afterAll(async () => {
  await house.gateway.close()
  await mailServer.close()
})

const ask = (email: string) => house.browser().fill('/account/register', { email })
const who = async (browser: Visitor) => (await browser.call('GET', '/manage/v1/session')).json()

async function registered(email: string): Promise<Visitor> {
  await ask(email)
  const own = house.browser()
  const done = await own.fill(await house.linkTo(email), FIELDS)
  expect(done.location).toBe('/account')
  return own
}

test('is off unless the settings say so', async () => {
  const closed = await openAccountsHouse({ settings: ACCOUNT_SETTINGS })
  expect((await closed.browser().open('/account/register')).status).toBe(404)
  expect((await closed.browser().open('/account/sign-in')).text).not.toContain('/account/register')
  await closed.gateway.close()
})

test('no stranger registers before the set-up link was used, and the link goes on working', async () => {
  const fresh = await openAccountsHouse({ settings: OPEN, mailServer })
  const setUp = await fresh.setUpPath()
  const email = 'too-early@example.com'
  const asked = await fresh.browser().fill('/account/register', { email })
  expect([asked.status, asked.text]).toEqual([422, expect.stringContaining('not set up yet')])
  // A link that was sent by a process of an earlier version.
  const { database } = fresh.gateway
  const link = await database.transaction((tx) =>
    makeLink(tx, { clock: systemClock, random: systemRandom() }, { purpose: 'registration', email }),
  )
  const path = `/account/register/finish?token=${link.reveal()}`
  expect((await fresh.browser().fill(path, FIELDS)).text).toContain('not set up yet')
  expect((await fresh.browser().fill(setUp, OWNER)).location).toBe('/account')
  expect((await fresh.browser().fill(path, FIELDS)).location).toBe('/account')
  expect(await database.query('select is_operator from users order by email')).toEqual([
    { is_operator: true },
    { is_operator: false },
  ])
  await fresh.gateway.close()
}, 30_000)

test('nobody has an account before the address is confirmed; then there is a new organization, apart from every other', async () => {
  await ask('eve@example.com')
  const path = await house.linkTo('eve@example.com')
  expect(await house.gateway.database.query("select 1 from users where email like 'eve@%'")).toEqual([])
  const eve = house.browser()
  expect((await eve.fill(path, { ...FIELDS, new_password: 'short' })).status).toBe(422)
  expect((await eve.fill(path, { ...FIELDS, organization: ' ' })).status).toBe(422)
  const advertising = await eve.fill(path, { ...FIELDS, organization: 'Claim $500 at https://evil.example/win' })
  expect([advertising.status, advertising.text]).toEqual([422, expect.stringContaining('address of a page')])
  expect((await eve.fill(path, FIELDS)).location).toBe('/account')
  const session = await who(eve)
  expect(session).toMatchObject({ role: 'owner', user: { operator: false }, organization: { name: 'default' } })
  expect(session.organization.id).not.toBe(house.organizationId)
  const rows = await house.gateway.database.query(
    `select o.standing, o.is_registered, a.balance_microcents, u.email_verified from organizations o
     join accounts a on a.organization_id = o.id join members m on m.organization_id = o.id
     join users u on u.id = m.user_id where o.id = $1`,
    [session.organization.id],
  )
  expect(rows).toEqual([{ standing: 'new', is_registered: true, balance_microcents: 0n, email_verified: true }])
  expect((await eve.open(path)).status).toBe(404)
})

test('one who registered makes a key, and is refused for want of money', async () => {
  const mallory = await registered('mallory@example.com')
  const made = await mallory.call('POST', '/manage/v1/keys', { name: 'k', scope: 'full_access' })
  const { key } = await made.json()
  const call = { model: 'svc/sandbox', messages: [{ role: 'user', content: 'Hello' }] }
  const answer = await house.gateway.post({ key } as never, '/chat/completions', call)
  expect([made.status, answer.status]).toEqual([201, 402])
  const { data } = await (await mallory.call('GET', '/manage/v1/members')).json()
  expect(data.map(({ email }: { email: string }) => email)).toEqual(['mallory@example.com'])
})

describe('an address', () => {
  test('that has an account is answered as one that has none; its owner is told, without a secret', async () => {
    const known = await ask('ada@example.com')
    const unknown = await ask('nobody@example.com')
    expect([known.status, known.text]).toEqual([unknown.status, unknown.text])
    await house.linkTo('nobody@example.com')
    const path = await house.linkTo('ada@example.com')
    expect(path).toBe('/account/sign-in')
  })

  test('that was given an account after the link was sent is not taken over', async () => {
    await ask('late@example.com')
    const path = await house.linkTo('late@example.com')
    await house.join(owner, 'late@example.com')
    expect((await house.browser().fill(path, FIELDS)).status).toBe(404)
  })

  test('that can not be one is refused', async () => {
    expect((await ask('admin@localhost')).status).toBe(422)
  })

  test('gets three mails at once, whoever asks', async () => {
    const before = mailServer.mails.length
    const answers: number[] = []
    for (let count = 0; count < 5; count += 1) answers.push((await ask('many@example.com')).status)
    expect(answers).toEqual([200, 200, 200, 200, 200])
    await mailServer.arrived(before + 3)
    // A fourth would have come before this one.
    await house.join(owner, 'after@example.com')
    expect(mailServer.mails.filter(({ to }) => to === 'many@example.com')).toHaveLength(3)
  })
})

test("an operator calls a registered organization by its id; its name may be another's", async () => {
  const { findOrganizationByName } = await import('../../organizations/find.ts')
  const { database } = house.gateway
  const { organization } = await who(await registered('third@example.com'))
  const [byId, byName] = [
    await findOrganizationByName(database, organization.id),
    await findOrganizationByName(database, 'default'),
  ]
  expect([byId.ok && byId.value.id, byName.ok && byName.value.id]).toEqual([organization.id, house.organizationId])
})
