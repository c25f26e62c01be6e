/** Forms of the pages: whose password it is, where the focus goes after a refusal, what comes next without a mail server, and cookies. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AccountsHouse, OWNER, openAccountsHouse } from '../../../../test/accountsHouse.ts'
import { type MailServer, openMailServer } from '../../../../test/mailServer.ts'
import type { Visitor } from '../../../../test/visitor.ts'
import { tooOftenPage } from './views.ts'

let mailServer: MailServer
let house: AccountsHouse
/** Without a mail server. */
let quiet: AccountsHouse
let owner: Visitor
beforeAll(async () => {
  mailServer = await openMailServer()
  house = await openAccountsHouse({ mailServer })
  quiet = await openAccountsHouse()
  owner = await house.owner()
}, 60_000)
afterAll(async () => {
  await house.gateway.close()
  await quiet.gateway.close()
  await mailServer.close()
})

/** The names of the fields with the focus. */
const focusOf = (text: string) => [...text.matchAll(/name="(\w+)" autofocus/g)].map(([, name]) => name)
const usernameOf = (text: string) =>
  /<input[^>]*autocomplete="username" value="([^"]*)" readonly/.exec(text)?.[1] ?? null

const SHORT = 'short'

test('the forms that set a password say whose it is, and a refusal puts the focus on the refused field', async () => {
  const setUp = await quiet.browser().fill(await quiet.setUpPath(), { ...OWNER, new_password: SHORT })
  expect([setUp.status, setUp.text.includes('autocomplete="username"'), focusOf(setUp.text)]).toEqual([
    422,
    true,
    ['new_password'],
  ])
  const unnamed = await quiet.browser().fill(await quiet.setUpPath(), { ...OWNER, name: '' })
  expect(focusOf(unnamed.text)).toEqual(['name'])

  await owner.call('POST', '/manage/v1/invitations', { email: 'new@example.com', role: 'member' })
  const browser = house.browser()
  const invitation = await house.linkTo('new@example.com')
  const shown = await browser.open(invitation)
  expect([usernameOf(shown.text), focusOf(shown.text)]).toEqual(['new@example.com', []])
  const accept = await browser.fill(invitation, { name: 'New', new_password: SHORT })
  expect([accept.status, usernameOf(accept.text), focusOf(accept.text)]).toEqual([
    422,
    'new@example.com',
    ['new_password'],
  ])

  await browser.fill('/account/forgotten', { email: OWNER.email })
  const link = await house.linkTo(OWNER.email)
  expect(usernameOf((await browser.open(link)).text)).toBe(OWNER.email)
  const reset = await browser.fill(link, { new_password: SHORT })
  expect([reset.status, usernameOf(reset.text), focusOf(reset.text)]).toEqual([422, OWNER.email, ['new_password']])
})

test('a refused sign-in, and refused forms of the own page, put the focus on one field of the form that was sent', async () => {
  const wrong = await house.browser().fill('/account/sign-in', { email: OWNER.email, password: 'wrong' })
  expect([wrong.status, focusOf(wrong.text)]).toEqual([401, ['password']])
  const send = (action: string, fields: Readonly<Record<string, string>>) => owner.fill('/account', fields, { action })
  const change = await send('/account/password', { password: OWNER.new_password, new_password: SHORT })
  expect([usernameOf(change.text), focusOf(change.text)]).toEqual([OWNER.email, ['new_password']])
  const address = await send('/account/new-address', { email: 'no address', password: OWNER.new_password })
  expect(focusOf(address.text)).toEqual(['email'])
  const current = await send('/account/new-address', { email: 'a@b.example', password: 'wrong' })
  const form = current.text.slice(current.text.indexOf('action="/account/new-address"'))
  expect([focusOf(current.text), focusOf(form)]).toEqual([['password'], ['password']])
})

test('the mark of a browser with the number of no data key reads no keys and locks nothing', async () => {
  const { database } = house.gateway
  // A process that reads the keys anew writes this row.
  const versions = () => database.query<{ xmin: string }>('select xmin::text from data_key_holders order by slot')
  const before = await versions()
  const browser = house.browser()
  browser.cookies.set('tollgate_browser', `999999999.99999999999.${'a'.repeat(32)}.${'b'.repeat(43)}`)
  const answer = await browser.fill('/account/sign-in', { email: OWNER.email, password: 'wrong' })
  expect([answer.status, before.length, await versions()]).toEqual([401, 1, before])
})

test('without a mail server a forgotten password says who gives the link, and with one that a mail is on its way', async () => {
  for (const [at, mails] of [
    [house, true],
    [quiet, false],
  ] as const) {
    const browser = at.browser()
    const asked = await browser.open('/account/forgotten')
    const sent = await browser.fill('/account/forgotten', { email: 'nobody@example.com' })
    expect([asked.text.includes('You get a mail'), sent.text.includes('on its way')]).toEqual([mails, mails])
    expect(sent.text.includes('./tollgate users reset-link')).toBe(!mails)
  }
})

test('a wait of one second is one second, and the own page says where the command is from', async () => {
  expect(await tooOftenPage(1).text()).toContain('Wait 1 second,')
  expect(await tooOftenPage(2).text()).toContain('Wait 2 seconds,')
  expect((await owner.open('/account')).text).toContain('npm install --global')
})
