/** The login by browser from the command to a key that works and back: the command's own code, a whole gateway, a person in a browser. */

import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { createDescription } from '../../server/test/acceptance/description.ts'
import { type AccountsHouse, openAccountsHouse } from '../../server/test/accountsHouse.ts'
import { until } from '../../server/test/until.ts'
import type { Visitor } from '../../server/test/visitor.ts'
import { runLine } from '../src/run.ts'
import { memoryFile, type TestSystem, testSystem } from './testSystem.ts'

const SERVER = 'http://gateway.test'
const ALL = { serverless: 'write', billing: 'write', webhooks: 'write', instances: 'write' }

let house: AccountsHouse
let owner: Visitor
beforeAll(async () => {
  house = await openAccountsHouse()
  owner = await house.owner()
}, 60_000)
afterAll(() => house.gateway.close())

let logins: ReturnType<typeof memoryFile>
/** Requests of the command that are under way. */
let underWay = 0
beforeEach(() => {
  logins = memoryFile()
})

function systemAt(hostname = 'laptop', isAway = () => false): TestSystem {
  return testSystem({
    logins,
    hostname,
    randomBytes: (length) => crypto.getRandomValues(new Uint8Array(length)),
    environment: { TOLLGATE_URL: SERVER },
    fetch: async (url, init) => {
      if (isAway()) throw new Error('away')
      if (url === `${SERVER}/manage/openapi.json`) return Response.json(house.gateway.managed)
      const { method, headers, body } = init
      underWay += 1
      try {
        const path = url.replace(SERVER, '').replace(/^\/v1/, '')
        return await house.gateway.send(path, {
          ...(method !== undefined && { method }),
          ...(headers !== undefined && { headers }),
          ...(body !== undefined && { body }),
          address: '203.0.113.9',
        })
      } finally {
        underWay -= 1
      }
    },
  })
}

async function type(words: readonly string[], system = systemAt()) {
  const code = await runLine(words, system.system)
  return { code, ...system.printed }
}

/** Types `login`; the person decides by `decide`, which gets the address of the page on which the login is decided. */
async function logIn(decide: (path: string) => Promise<unknown>, hostname = 'laptop') {
  const typed = systemAt(hostname)
  let code: number | undefined
  const ended = runLine(['login'], typed.system).then((each) => {
    code = each
  })
  let isDecided = false
  while (code === undefined) {
    const shown = /type the code (\S+) there/.exec(typed.printed.said)?.[1]
    if (shown !== undefined && !isDecided) {
      isDecided = true
      const { location } = await owner.fill('/account/device', { code: shown })
      await decide(location ?? '')
    }
    // The gateway works in real time: the command's clock stands still meanwhile.
    if (underWay === 0) await typed.clock.turn(1_000)
    else await until(() => underWay === 0)
  }
  await ended
  return { code, ...typed.printed }
}

const approve = (path: string) => owner.fill(path, ALL)
const keys = () =>
  house.gateway.database.query<{ name: string; revoked: boolean; member: boolean }>(
    `select name, revoked_at is not null as revoked, member_id is not null as member from api_keys
     where name like 'laptop%' order by created_at, id`,
  )

test('login, a call, and logout, which revokes the key that login had made', async () => {
  const { code, out, said } = await logIn(approve)
  expect([code, out]).toEqual([0, expect.stringContaining(`Logged in to ${SERVER}.`)])
  expect(said).toMatch(
    // That the server is not encrypted is said before anything is sent there.
    /^tollgate: \S+ is not encrypted: .*\nOpen http:\/\/127\.0\.0\.1:8080\/account\/device and type the code [A-Z]{4}-[A-Z]{4} there\.\n/,
  )
  expect(await keys()).toEqual([{ name: 'laptop', revoked: false, member: true }])
  expect((await type(['balance'])).code).toBe(0)
  const left = await type(['logout', '--json'])
  expect([left.code, JSON.parse(left.out)]).toEqual([
    0,
    { server: SERVER, forgotten: true, revoked: true, next_server: SERVER },
  ])
  expect(await keys()).toEqual([{ name: 'laptop', revoked: true, member: true }])
  expect((await type(['balance'])).code).toBe(4)
})

test('a login that is denied keeps nothing', async () => {
  const { code, said } = await logIn((path) => owner.fill(path, {}, { action: path.replace('/approve?', '/deny?') }))
  expect([code, logins.text]).toEqual([1, null])
  expect(said).toContain('the login was refused in the browser')
})

test('a second login revokes the key of the first; one with a token is forgotten and not revoked', async () => {
  await logIn(approve, 'laptop-first')
  await logIn(approve, 'laptop-second')
  const named = async (name: string) => (await keys()).find((each) => each.name === name)
  expect([(await named('laptop-first'))?.revoked, (await named('laptop-second'))?.revoked]).toEqual([true, false])
  const made = await (
    await owner.call('POST', '/manage/v1/keys', { name: 'laptop-token', scope: 'full_access' })
  ).json()
  await type(['logout'])
  const typed = systemAt()
  typed.lines.push(made.key)
  expect((await type(['login', '--with-token'], typed)).code).toBe(0)
  const left = await type(['logout', '--json'])
  expect(JSON.parse(left.out)).toMatchObject({ revoked: false })
  expect((await named('laptop-token'))?.revoked).toBe(false)
})

test('a logout that does not reach the server stays logged in, unless the key is to be kept', async () => {
  await logIn(approve, 'laptop-away')
  const away = await type(
    ['logout'],
    systemAt('laptop', () => true),
  )
  expect([away.code, away.said]).toEqual([1, expect.stringContaining('give --keep-key')])
  expect(logins.text).toContain('svc_live_')
  expect(
    (
      await type(
        ['logout', '--keep-key'],
        systemAt('laptop', () => true),
      )
    ).code,
  ).toBe(0)
  expect((await keys()).find(({ name }) => name === 'laptop-away')?.revoked).toBe(false)
})

test("an admin's login makes, lists, rotates and revokes keys; with --json each answer is as described", async () => {
  const managed = createDescription(house.gateway.managed)
  await logIn((path) => owner.fill(path, { ...ALL, admin: 'yes' }), 'laptop-admin')
  const json = async (...words: string[]) => {
    const { code, out, said } = await type([...words, '--json'])
    expect([code, said]).toEqual([0, ''])
    return JSON.parse(out)
  }
  const made = await json('keys', 'create', 'report', '--scope', 'billing:read', '--expires', '30d')
  expect({ ...made }).toMatchObject({ name: 'report', scope: 'billing:read', admin: false, member_id: null })
  const next = await json('keys', 'rotate', made.id, '--overlap', '0')
  for (const each of [made, next]) managed.checkSchema('NewApiKey', each)
  const page = await json('keys', 'list', '--limit', '2')
  managed.checkSchema('ApiKeyPage', page)
  const { data } = page
  expect(data.map(({ id, state }: { id: string; state: string }) => [id, state])).toEqual([
    [next.id, 'active'],
    [made.id, 'expired'],
  ])
  const listed = (await type(['keys', 'list'])).out
  expect(listed).toMatch(/^ID +NAME +SCOPE +OWNER +LAST USE +EXPIRES\n/)
  expect(listed).toMatch(new RegExp(`\n${next.id}  report .* organization +never .*\\d\n`))
  expect(listed).toMatch(/ laptop-admin .*\(admin\) +ada@example\.com /)
  // Ended ones last.
  expect(listed.indexOf(made.id)).toBeGreaterThan(listed.lastIndexOf('laptop-admin'))
  expect(listed).toMatch(new RegExp(`\n${made.id}  .* expired\n`))
  expect((await type(['keys', 'list', '--limit', '1'])).out).toMatch(
    /\nThere are more: add --cursor \S+ to see them\.\n$/,
  )
  expect(await json('keys', 'revoke', next.id)).toEqual({ id: next.id, revoked: true })
  expect((await type(['keys', 'revoke', 'nonsense'])).said).toContain('There is no such key')
  expect((await type(['keys', 'rotate', made.id, '--overlap', 'soon'])).code).toBe(2)
  const shown = await type(['keys', 'create', 'shown', '--scope', 'read_only'])
  expect(shown.out).toMatch(/^Made the key \S+\.\nKeep it now, it can't be shown again:\n\nsvc_live_\w{24}\n$/)
})

test('a rotation names the end of the old key and that of the new one, and a login goes on with the new key', async () => {
  await logIn((path) => owner.fill(path, { ...ALL, admin: 'yes' }), 'laptop-rotated')
  const make = async (...more: string[]) =>
    JSON.parse((await type(['keys', 'create', 'job', '--scope', 'billing:read', '--json', ...more])).out)
  const minute = (instant: number) => new Date(instant).toISOString().slice(0, 16).replace('T', ' ')

  const endless = await make()
  const ended = await type(['keys', 'rotate', endless.id, '--overlap', '0'])
  expect(ended.out).toMatch(
    /^Made the key \S+ in place of \S+, which works no more\.\nThe new key never expires\.\nKeep it now/,
  )
  const short = await make('--expires', '2h')
  const { out: capped } = await type(['keys', 'rotate', short.id])
  const expiry = minute(Date.parse(short.expires_at))
  expect(capped).toContain(`which works until ${expiry} UTC.\nThe new key expires ${expiry} UTC.\n`)
  const tooLong = await type(['keys', 'rotate', short.id, '--overlap', '31d'])
  expect([tooLong.code, tooLong.said]).toEqual([2, expect.stringContaining('--overlap: must be a length of time')])

  const { id: first } = JSON.parse((await type(['whoami', '--json'])).out)
  const kept = logins
  logins = { ...kept, write: () => Promise.reject(new Error('full')) }
  const lost = await type(['keys', 'rotate', first, '--json'])
  logins = kept
  expect(lost.code).toBe(0)
  const shownKey = systemAt()
  shownKey.lines.push(JSON.parse(lost.out).key)
  expect((await type(['login', '--with-token'], shownKey)).code).toBe(0)

  const { id } = JSON.parse((await type(['whoami', '--json'])).out)
  const own = await type(['keys', 'rotate', id, '--overlap', '0'])
  expect(own.out).toEndWith(`Your login to ${SERVER} has the new key from now on.\n`)
  expect(own.out).not.toContain('svc_live_')
  const after = await type(['whoami', '--json'])
  expect([after.code, JSON.parse(after.out).id === id]).toEqual([0, false])
  expect((await type(['keys', 'list'])).code).toBe(0)
})

test('whoami says who you are, for which organization and with which rights', async () => {
  await logIn((path) => owner.fill(path, { ...ALL, serverless: 'none', billing: 'read' }), 'laptop-who')
  const { out, said } = await type(['whoami'])
  expect(said).toBe('')
  expect(out).toMatch(/^Person +Ada, ada@example\.com, owner of the organization$/m)
  expect(out).toContain(house.organizationId)
  expect(out).toMatch(/^Organization +default, /m)
  expect(out).toMatch(/^Scopes +billing read, webhooks write$/m)
  expect(out).toMatch(/^Admin's rights +no$/m)
  expect(out).toMatch(/^Expires +\d{4}-\d\d-\d\d \d\d:\d\d UTC$/m)
})

test("a member's key manages no keys", async () => {
  await logIn(approve, 'laptop-plain')
  const { code, said } = await type(['keys', 'list'])
  expect([code, said]).toEqual([1, expect.stringContaining("needs an organization admin's key")])
})
