/** A gateway with accounts, and the people in it. */

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { makeFirstKey } from '../src/app/firstStart.ts'
import { makeSetUpLink } from '../src/identity/accounts/entry/setUp.ts'
import { systemClock } from '../src/infra/clock.ts'
import { systemRandom } from '../src/infra/random.ts'
import type { Clock } from '../src/lib/time.ts'
import { type AskedGateway, openAskedGateway } from './acceptance/ask.ts'
import type { MailServer } from './mailServer.ts'
import { until } from './until.ts'
import { BROWSER_ORIGIN, openVisitor, type Visitor } from './visitor.ts'

export const ACCOUNT_SETTINGS = `accounts: {}\npublic_url: ${BROWSER_ORIGIN}\n`

export const OWNER = { name: 'Ada', email: 'ada@example.com', new_password: 'a long enough phrase' }

export interface AccountsHouse {
  readonly gateway: AskedGateway
  /** The organization `default`. */
  readonly organizationId: string
  /** The path of the set-up page with its link. */
  setUpPath(): Promise<string>
  /** The path of the page that the last link mailed to an address leads to. */
  linkTo(email: string): Promise<string>
  /** A browser, from an address of its own unless given. */
  browser(address?: string): Visitor
  /** Sets the first person up, and returns the browser that is signed in. */
  owner(): Promise<Visitor>
  /** Invites somebody by the session of an admin and accepts; returns the browser that is signed in. */
  join(admin: Visitor, email: string, role?: string): Promise<Visitor>
}

/** The id by which a signed-in person is a member of the organization that the session acts for. */
export async function memberIdOf(browser: Visitor): Promise<string> {
  const { member_id: id } = await (await browser.call('GET', '/manage/v1/session')).json()
  return id
}

/** Opens a gateway with accounts. Close its gateway in `afterAll`. */
export async function openAccountsHouse(
  options: {
    readonly clock?: Clock
    readonly settings?: string
    readonly mailServer?: MailServer
    readonly environment?: Readonly<Record<string, string>>
  } = {},
): Promise<AccountsHouse> {
  const clock = options.clock ?? systemClock
  const { mailServer, settings = ACCOUNT_SETTINGS, environment } = options
  const smtp =
    mailServer === undefined
      ? ''
      : `smtp: { host: 127.0.0.1, port: ${mailServer.port}, tls: none, from: "Tollgate <t@example.com>" }\n`
  const gateway = await openAskedGateway({
    clock,
    settings: `${settings}${smtp}`,
    ...(environment === undefined ? {} : { environment }),
  })
  const random = systemRandom()
  const { database, dataDirectory } = gateway
  await makeFirstKey(database, clock, random, async () => {})
  const [{ id: organizationId = '' } = {}] = await database.query<{ id: string }>(
    "select id from organizations where name = 'default'",
  )
  let addresses = 0
  const browser = (address?: string) => {
    addresses += 1
    return openVisitor(gateway, address ?? `198.51.100.${addresses}`)
  }
  const setUpPath = async () => {
    const secret = await makeSetUpLink({ database, clock, random })
    return `/account/set-up?token=${secret?.reveal()}`
  }
  const linkTo = linksOf(dataDirectory, mailServer)
  return {
    gateway,
    organizationId,
    setUpPath,
    linkTo,
    browser,
    async owner() {
      const own = browser()
      await own.fill(await setUpPath(), OWNER)
      return own
    },
    async join(admin, email, role = 'member') {
      const invited = await admin.call('POST', '/manage/v1/invitations', { email, role })
      if (invited.status !== 201) throw new Error(await invited.text())
      const own = browser()
      const joined = await own.fill(await linkTo(email), { name: email, new_password: 'a long enough phrase' })
      if (joined.status !== 303) throw new Error(joined.text)
      return own
    },
  }
}

/** Returns {@link AccountsHouse.linkTo}. It returns no link twice. */
function linksOf(dataDirectory: string, mailServer: MailServer | undefined) {
  const given = new Set<string>()
  /** The last mail to an address that was written to the file. */
  const fileTo = async (email: string) => {
    const text = await readFile(join(dataDirectory, 'account-links'), 'utf8').catch(() => '')
    return text.split(/^(?=\d{4}-\d\d-\d\dT\S+ to )/m).findLast((each) => each.includes(` to ${email}: `))
  }
  return async (email: string): Promise<string> => {
    let link = ''
    await until(async () => {
      const mail =
        mailServer === undefined ? await fileTo(email) : mailServer.mails.findLast(({ to }) => to === email)?.text
      const path = /(\/account\/\S+)/.exec(mail ?? '')?.[1]
      if (path === undefined || given.has(path)) return false
      given.add(path)
      link = path
      return true
    })
    return link
  }
}
