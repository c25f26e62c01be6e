/** The bound on the changes that a person makes to own ways to sign in: each is kept in the audit log, and mostly mailed. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { ACCOUNT_SETTINGS, type AccountsHouse, openAccountsHouse } from '../../../../test/accountsHouse.ts'
import { type MailServer, openMailServer } from '../../../../test/mailServer.ts'
import { passkeyOptionsIn, softPasskey } from '../../../../test/softPasskey.ts'
import { BROWSER_ORIGIN, openVisitor, type Visitor } from '../../../../test/visitor.ts'

const LIST = '/account/passkeys'
const NEW = '/account/passkeys/new'

let mails: MailServer
let house: AccountsHouse
let owner: Visitor
beforeAll(async () => {
  mails = await openMailServer()
  const settings = ACCOUNT_SETTINGS.replace('accounts: {}', 'accounts: { passkeys: true }')
  house = await openAccountsHouse({ settings, mailServer: mails })
  owner = await house.owner()
})
afterAll(async () => {
  await house.gateway.close()
  await mails.close()
})

/** The same session from another address: each address may open a few pages a second. */
function elsewhere(turn: number): Visitor {
  const browser = openVisitor(house.gateway, `192.0.2.${turn % 4}`)
  for (const [name, value] of owner.cookies) browser.cookies.set(name, value)
  return browser
}

test('sixty new passkeys and new names are taken at once; removing one always is', async () => {
  const device = softPasskey(BROWSER_ORIGIN)
  const answer = device.register(passkeyOptionsIn((await owner.open(NEW)).text))
  expect((await owner.fill('/account', { name: 'laptop', answer }, { action: NEW })).status).toBe(303)
  const id = /name="passkey" value="([^"]*)"/.exec((await owner.open(LIST)).text)?.[1] ?? ''
  const rename = (browser: Visitor, name: string) =>
    browser.fill(LIST, { passkey: id, name }, { action: `${LIST}/rename` })
  for (let turn = 1; turn < 60; turn += 1) {
    expect((await rename(elsewhere(turn), `name ${turn}`)).status).toBe(303)
  }
  expect((await rename(elsewhere(60), 'one more')).status).toBe(429)
  expect((await owner.fill(LIST, { passkey: id }, { action: `${LIST}/remove` })).status).toBe(303)
})
