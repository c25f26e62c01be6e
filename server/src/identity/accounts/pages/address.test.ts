/** A forgotten password, and a person's change of mail address, on the whole gateway with a real mail server. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AccountsHouse, OWNER, openAccountsHouse } from '../../../../test/accountsHouse.ts'
import { type MailServer, openMailServer } from '../../../../test/mailServer.ts'
import { until } from '../../../../test/until.ts'
import { BROWSER_ORIGIN, type Visitor } from '../../../../test/visitor.ts'

const PASSWORD = OWNER.new_password
const NEW = 'ada@new.example'

let mailServer: MailServer
let house: AccountsHouse
let owner: Visitor
beforeAll(async () => {
  mailServer = await openMailServer()
  house = await openAccountsHouse({ mailServer })
  owner = await house.owner()
}, 60_000)
afterAll(async () => {
  await house.gateway.close()
  await mailServer.close()
})

const ask = (browser: Visitor, email: string, password = PASSWORD) =>
  browser.fill('/account', { email, password }, { action: '/account/new-address' })
const isSignedIn = async (browser: Visitor) => (await browser.open('/account')).status === 200
const emails = async () =>
  (await house.gateway.database.query<{ email: string }>('select email from users order by email')).map(
    ({ email }) => email,
  )

test.each([
  ['a wrong password', NEW, 'a wrong long phrase'],
  ['no address', 'admin@localhost', PASSWORD],
  ['the same address', OWNER.email, PASSWORD],
])('%s is refused', async (_name, email, password) => {
  expect((await ask(owner, email, password)).status).toBe(422)
})

test('nothing changes before the link is opened by the same person; then other sessions end and both addresses are told', async () => {
  const member = await house.join(owner, 'member@example.com')
  const other = house.browser()
  await other.fill('/account/sign-in', { email: OWNER.email, password: PASSWORD })
  const asked = await ask(owner, ` ${NEW.toUpperCase()}`)
  expect([asked.status, asked.text]).toEqual([200, expect.stringContaining('a mail with a link is on its way')])
  const path = await house.linkTo(NEW)
  expect(await emails()).toEqual([OWNER.email, 'member@example.com'])

  // Neither a stranger nor another person who gets hold of the link can use it.
  expect((await house.browser().open(path)).location).toBe('/account/sign-in')
  expect((await member.open(path)).status).toBe(404)
  const csrf = /name="csrf" value="([^"]*)"/.exec((await member.open('/account')).text)?.[1] ?? ''
  expect((await member.fill(path, { csrf })).status).toBe(404)
  expect(await emails()).toEqual([OWNER.email, 'member@example.com'])

  const before = mailServer.mails.length
  const done = await owner.fill(path, {})
  expect([done.status, done.text]).toEqual([200, expect.stringContaining('Your address is changed')])
  expect(await emails()).toEqual([NEW, 'member@example.com'])
  expect([await isSignedIn(owner), await isSignedIn(other)]).toEqual([true, false])
  await mailServer.arrived(before + 2)
  const told = mailServer.mails
    .slice(before)
    .map(({ to, text }) => [to, text.includes('Your mail address was changed')])
  expect(told.sort()).toEqual([
    [OWNER.email, true],
    [NEW, true],
  ])
  expect((await owner.open(path)).status).toBe(404)
  const signIn = (email: string) => house.browser().fill('/account/sign-in', { email, password: PASSWORD })
  expect([(await signIn(OWNER.email)).status, (await signIn(NEW)).location]).toEqual([401, '/account'])
  const { data } = await (await owner.call('GET', '/manage/v1/session'))
    .json()
    .then((session) => ({ data: session.user }))
  expect(data.email).toBe(NEW)
})

test('an address that somebody has gets no mail, and the page says the same', async () => {
  const text = (page: { text: string }, email: string) => page.text.replaceAll(email, 'X').replace(/value="[^"]*"/g, '')
  const taken = await ask(owner, 'member@example.com')
  const free = await ask(owner, 'ada@free.example')
  expect(text(taken, 'member@example.com')).toBe(text(free, 'ada@free.example'))
  await house.linkTo('ada@free.example')
  expect(
    mailServer.mails.filter(({ to, text: mail }) => to === 'member@example.com' && mail.includes('Confirm')),
  ).toEqual([])
})

test('ten mails to new addresses are sent for a person at once, and then one in twelve minutes', async () => {
  const member = await house.join(owner, 'many@example.com')
  for (let turn = 0; turn < 10; turn += 1) expect((await ask(member, `${turn}@many.example`)).status).toBe(200)
  const refused = await ask(member, 'eleventh@many.example')
  expect(refused.status).toBe(429)
  expect(Number(refused.headers.get('Retry-After'))).toBeWithin(600, 721)
})

test('a changed password ends the link to a new address, and one to an address that was taken meanwhile does nothing', async () => {
  await ask(owner, 'ada@third.example')
  const ended = await house.linkTo('ada@third.example')
  const change = { password: PASSWORD, new_password: 'quite another phrase' }
  expect((await owner.fill('/account', change, { action: '/account/password' })).status).toBe(200)
  expect((await owner.open(ended)).status).toBe(404)
  await ask(owner, 'ada@fourth.example', change.new_password)
  const late = await house.linkTo('ada@fourth.example')
  await house.join(owner, 'ada@fourth.example')
  expect((await owner.fill(late, {})).status).toBe(404)
  expect(await emails()).toContain(NEW)
})

test('a password that was forgotten is set by the mailed link, which signs in and ends all other sessions; the person is told', async () => {
  const forgetful = await house.join(owner, 'forgetful@example.com')
  // Mails to others may still be on their way.
  const mails = () => mailServer.mails.filter(({ to }) => to === 'forgetful@example.com')
  const before = mails().length
  const browser = house.browser()
  const asked = await browser.fill('/account/forgotten', { email: 'forgetful@example.com' })
  expect(asked.text).toContain('a mail with a link is on its way')
  await until(() => mails().length > before)
  const [{ text } = { text: '' }] = mails().slice(before)
  expect(text).toContain('Subject: Set a new password')
  const [link = ''] = /^http:\S+/m.exec(text) ?? []
  expect(link).toStartWith(`${BROWSER_ORIGIN}/account/reset?token=`)

  const next = 'quite another phrase'
  const done = await browser.fill(link.slice(BROWSER_ORIGIN.length), { new_password: next })
  expect([done.status, done.location]).toEqual([303, '/account'])
  expect((await browser.open('/account')).text).toContain('forgetful@example.com')
  expect([await isSignedIn(forgetful), await isSignedIn(owner)]).toEqual([false, true])
  await until(() => mails().length > before + 1)
  const told = mails().slice(before + 1)
  expect(told.map((mail) => [/^Subject: .*$/m.exec(mail.text)?.[0].trim(), mail.text.includes(next)])).toEqual([
    ['Subject: Your password was changed', false],
  ])
  const signIn = (password: string) =>
    house.browser().fill('/account/sign-in', { email: 'forgetful@example.com', password })
  expect([(await signIn(PASSWORD)).status, (await signIn(next)).location]).toEqual([401, '/account'])
})
