/** Where a request to an app goes, and who is refused: hosts, passwords, guesses, pages of others. */

import { beforeEach, describe, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { SILENCE } from '../../../test/silence.ts'
import type { ProxyDecision, ProxyRequest } from '../../infra/proxy/server.ts'
import { createClientAddress } from '../../lib/clientAddress.ts'
import { addressOfHost, reachOf, targetOf } from './address.ts'
import { decideAccess } from './decide.ts'
import { createDoors, type Doors, endStaleDoors } from './doors.ts'
import { hashOfPassword } from './password.ts'
import type { InstanceAccess } from './store.ts'
import { countWrongPasswords } from './wrongPasswords.ts'

const ID = '01920e4c-7c00-7c3a-9d5e-0a6f4f1b2c3d'
const ACCESS = { host: 'apps.test:8443', isSecure: true, port: 8_081 }
const HOST = `${ID}.apps.test`
const PASSWORD = 'right'

let clock: TurnedClock
let row: InstanceAccess | null
let looks: number
let isDatabaseAway: boolean
let doors: Doors
let decide: (changes?: Partial<ProxyRequest> & { headers?: Record<string, string> }) => Promise<ProxyDecision>

const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`

beforeEach(() => {
  clock = new TurnedClock()
  looks = 0
  isDatabaseAway = false
  doors = createDoors()
  row = {
    ...{ organizationId: 'o', isRunning: true, passwordHash: hashOfPassword(PASSWORD) },
    ...{ appTarget: 'unix:/app.sock', terminalTarget: null },
  }
  const decideOn = decideAccess({
    ...{ access: ACCESS, doors, log: SILENCE },
    wrongPasswords: countWrongPasswords(clock),
    clientAddress: createClientAddress([]),
    async find(id) {
      looks += 1
      if (isDatabaseAway) throw new Error('away')
      return id === ID ? row : null
    },
  })
  decide = ({ headers = {}, ...changes } = {}) => {
    const all: Record<string, string> = { authorization: basic(`tollgate:${PASSWORD}`), ...headers }
    const request = { method: 'GET', host: HOST, address: '192.0.2.1', isUpgrade: false, ...changes }
    return decideOn({ ...request, header: (name) => all[name] ?? null })
  }
})

const statusOf = (decision: ProxyDecision) => (decision.kind === 'refuse' ? decision.status : 'forward')

test('the right password leads to the app, without our cookies', async () => {
  const decision = await decide()
  if (decision.kind === 'refuse') throw new Error(decision.text)
  expect(decision).toMatchObject({ target: { socketPath: '/app.sock' }, isSecure: true })
  const own = ['tollgate_session', '__Host-tollgate_session', '__Secure-tollgate_x', 'session', 'my_tollgate_x']
  expect(own.map(decision.isOwnCookie)).toEqual([true, true, true, false, false])
})

test.each([
  ['no host of ours', { host: 'apps.test' }, 404],
  ['a host below an app', { host: `x.${HOST}` }, 404],
  ['the host of our pages', { host: 'gateway.test' }, 404],
  ['a name that is no id', { host: 'www.apps.test' }, 404],
  ['another suffix', { host: `${ID}.apps.test.evil.test` }, 404],
  ['a host with a port, in capitals', { host: `${HOST.toUpperCase()}:1234` }, 'forward'],
  ['a terminal that it does not have', { host: `${ID}-terminal.apps.test` }, 503],
  ['no password', { headers: { authorization: '' } }, 401],
  ['a key of ours', { headers: { authorization: 'Bearer tg_1' } }, 401],
  ['no Basic auth', { headers: { authorization: 'Basic %%%' } }, 401],
  ['another name', { headers: { authorization: basic(`root:${PASSWORD}`) } }, 401],
  ['a wrong password', { headers: { authorization: basic('tollgate:wrong') } }, 401],
  ['an empty password', { headers: { authorization: basic('tollgate:') } }, 401],
  ['another protocol', { isUpgrade: true, headers: { upgrade: 'h2c' } }, 400],
  ['a WebSocket', { isUpgrade: true, headers: { upgrade: 'websocket' } }, 'forward'],
  [
    'a WebSocket of its own page',
    { isUpgrade: true, headers: { upgrade: 'WebSocket', origin: `https://${HOST}` } },
    'forward',
  ],
  [
    'a WebSocket of another page',
    { isUpgrade: true, headers: { upgrade: 'websocket', origin: 'https://evil.test' } },
    403,
  ],
  ['a POST of another instance', { method: 'POST', headers: { origin: 'https://x.apps.test' } }, 403],
  ['a POST of a page without origin', { method: 'POST', headers: { origin: 'null' } }, 403],
  ['a read of another page', { headers: { origin: 'https://evil.test' } }, 'forward'],
  ['a POST of a program', { method: 'POST' }, 'forward'],
] as const)('%s', async (_what, changes, expected) => {
  expect(statusOf(await decide(changes))).toBe(expected)
})

test("another organization's instance, one without a password and none at all are refused alike", async () => {
  const headers = { authorization: basic('tollgate:mine') }
  const others = await decide({ headers })
  row = row && { ...row, passwordHash: null }
  expect(await decide({ headers })).toEqual(others)
  row = row && { ...row, isRunning: false, appTarget: null }
  expect(await decide({ headers })).toEqual(others)
  row = null
  expect(await decide({ headers })).toEqual(others)
})

test('one that does not run is told to its owner alone', async () => {
  row = row && { ...row, isRunning: false }
  expect(statusOf(await decide())).toBe(503)
  expect(statusOf(await decide({ headers: { authorization: basic('tollgate:x') } }))).toBe(401)
})

describe('wrong passwords', () => {
  const wrong = { headers: { authorization: basic('tollgate:wrong') } }

  test('of one address are bounded, and then nobody looks', async () => {
    for (let guess = 0; guess < 10; guess += 1) expect(statusOf(await decide(wrong))).toBe(401)
    const before = looks
    expect(await decide(wrong)).toMatchObject({ status: 429, headers: { 'retry-after': '6' } })
    expect(statusOf(await decide())).toBe(429)
    expect(looks).toBe(before)
    expect(statusOf(await decide({ address: '192.0.2.2' }))).toBe('forward')
    await clock.turn(6_000)
    expect(statusOf(await decide(wrong))).toBe(401)
    expect(statusOf(await decide(wrong))).toBe(429)
    await clock.turn(60_000)
    expect(statusOf(await decide())).toBe('forward')
  })

  test('of one instance keep nobody from another, and many of all are bounded too', async () => {
    const other = (nth: number) => `01920e4c-7c00-7c3a-9d5e-${String(nth).padStart(12, '0')}.apps.test`
    for (let guess = 0; guess < 190; guess += 1) {
      expect(statusOf(await decide({ ...wrong, host: other(guess % 19) }))).toBe(401)
    }
    expect(statusOf(await decide({ ...wrong, host: other(0) }))).toBe(429)
    expect(statusOf(await decide())).toBe('forward')
    for (let guess = 0; guess < 10; guess += 1) await decide({ ...wrong, host: other(20) })
    expect(await decide()).toMatchObject({ status: 429, headers: { 'retry-after': '1' } })
    expect(statusOf(await decide({ address: '192.0.2.2' }))).toBe('forward')
    await clock.turn(1_000)
    expect(statusOf(await decide())).toBe('forward')
  })

  test('of one network of IPv6 count together', async () => {
    for (let guess = 0; guess < 10; guess += 1) await decide({ ...wrong, address: `2001:db8:0:${guess}::1` })
    expect(statusOf(await decide({ address: '2001:db8:0:ff::1' }))).toBe(429)
    expect(statusOf(await decide({ address: '2001:db8:1::1' }))).toBe('forward')
  })

  test('are not counted where none is shown', async () => {
    for (let ask = 0; ask < 20; ask += 1) expect(statusOf(await decide({ headers: { authorization: '' } }))).toBe(401)
    expect([looks, statusOf(await decide())]).toEqual([0, 'forward'])
  })
})

describe('requests that are under way', () => {
  const OTHER_ID = '01920e4c-7c00-7c3a-9d5e-0a6f4f1b2c3e'
  const key = (organizationId: string, id: string) => ({ organizationId, id, hash: hashOfPassword(PASSWORD) })

  /** Opens as many as it may; returns the names of those that were ended. */
  function fill(organizationId: string, id: string, requests: number): string[] {
    const ended: string[] = []
    for (let request = 0; request < requests; request += 1) {
      const door = doors.take(key(organizationId, id))
      door?.opened({ end: () => void ended.push(`${organizationId} ${request}`) })
    }
    return ended
  }

  test('of one instance are bounded, and give their places back once', async () => {
    const first = await decide()
    const second = await decide()
    for (let request = 2; request < 64; request += 1) expect(statusOf(await decide())).toBe('forward')
    expect(await decide()).toMatchObject({ status: 503, headers: { 'retry-after': '1' } })
    if (first.kind !== 'forward' || second.kind !== 'forward') throw new Error('refused')
    first.onClosed()
    first.onClosed()
    expect(statusOf(await decide())).toBe('forward')
    expect(statusOf(await decide())).toBe(503)
  })

  test('of one instance leave room for the other instances of its organization, and those of all for other organizations', async () => {
    fill('o', OTHER_ID, 1_000)
    expect(doors.all().length).toBe(64)
    expect(statusOf(await decide())).toBe('forward')
    fill('o', 'third', 1_000)
    expect(doors.all().length).toBe(128)
    expect(statusOf(await decide())).toBe(503)
    expect(doors.take(key('p', OTHER_ID))).not.toBeNull()
  })

  test('of two organizations with an instance each leave the apps of all others open', async () => {
    for (const organization of ['a', 'b']) fill(organization, organization, 512)
    expect(statusOf(await decide())).toBe('forward')
  })

  test('of as many organizations as you like leave every other its place: the largest loses its oldest', async () => {
    const ended: string[] = []
    for (let organization = 0; organization < 8; organization += 1)
      for (const instance of ['x', 'y']) ended.push(...fill(`${organization}`, `${organization}${instance}`, 64))
    expect([doors.all().length, ended]).toEqual([1_024, []])
    const lost = doors.all()[0]
    expect(statusOf(await decide())).toBe('forward')
    expect(doors.all().length).toBe(1_024)
    expect(doors.all()).not.toContain(lost)
    for (let request = 1; request < 64; request += 1) expect(statusOf(await decide())).toBe('forward')
    const counts = Map.groupBy(doors.all(), ({ organizationId }) => organizationId)
    expect([...counts.values()].map((own) => own.length).sort((a, b) => a - b)).toEqual([64, ...Array(8).fill(120)])
  })

  test('lose no place to an organization that has as many', () => {
    for (let organization = 0; organization < 1_024; organization += 1) fill(`${organization}`, `${organization}`, 1)
    expect(doors.take(key('late', OTHER_ID))).toBeNull()
    expect(doors.take(key('0', OTHER_ID))).toBeNull()
  })

  test('are ended though they were not on their way yet when they lost their place', () => {
    let ended = 0
    const door = doors.take(key('o', ID))
    door?.end()
    door?.close()
    door?.opened({
      end() {
        ended += 1
      },
    })
    expect([ended, doors.all()]).toEqual([1, []])
  })
})

test('without the database it is refused, and nothing is let through', async () => {
  isDatabaseAway = true
  expect(await decide()).toMatchObject({ status: 503 })
})

describe('the look at passwords', () => {
  const [one, two] = [hashOfPassword('one'), hashOfPassword('two')]
  let ended: string[]
  beforeEach(() => {
    ended = []
  })
  function open(name: string, id: string, hash: Uint8Array) {
    const door = doors.take({ organizationId: 'o', id, hash })
    door?.opened({ end: () => void ended.push(name) })
    return door
  }

  test('ends what was opened by one that is no more, and what goes to an instance that has ended', async () => {
    open('old', 'a', one)
    open('fresh', 'a', two)
    open('gone', 'b', one)
    const asked: (readonly string[])[] = []
    await endStaleDoors(doors, async (ids) => {
      asked.push(ids)
      return new Map([['a', two]])
    })
    expect([asked, ended]).toEqual([[['a', 'b']], ['old', 'gone']])
  })

  test('leaves alone what is opened while it looks, to other instances and by newer passwords', async () => {
    open('old', 'a', one)
    await endStaleDoors(doors, async () => {
      open('another', 'b', one)
      open('newer', 'a', two)
      return new Map([['a', one]])
    })
    expect(ended).toEqual([])
  })

  test('ends nothing that is over: its connection may have another request by now', async () => {
    const over = open('over', 'a', one)
    await endStaleDoors(doors, async () => {
      over?.close()
      return new Map()
    })
    expect(ended).toEqual([])
  })

  test('asks for nothing where nothing is open', async () => {
    await endStaleDoors(doors, () => Promise.reject(new Error('asked')))
  })
})

test('instances are shown at their hosts, and by the URLs of their driver without one', () => {
  const machine = { appUrl: 'http://10.0.0.1/x', terminalUrl: 'http://10.0.0.1:7681/' }
  const at = reachOf(ACCESS, ID, machine)
  expect(at).toEqual({
    appUrl: `https://${ID}.apps.test:8443/`,
    terminalUrl: `https://${ID}-terminal.apps.test:8443/`,
    ...{ appTarget: machine.appUrl, terminalTarget: machine.terminalUrl, appUser: 'tollgate' },
  })
  expect(addressOfHost(ACCESS, new URL(at.terminalUrl ?? '').host)).toEqual({ id: ID, isTerminal: true })
  expect(reachOf(null, ID, machine)).toEqual({ ...machine, appTarget: null, terminalTarget: null, appUser: null })
  expect(reachOf(ACCESS, ID, { appUrl: null, terminalUrl: null }).appUser).toBeNull()
})

test('on one machine the URL of an app has the port at which it answers', () => {
  const access = { host: 'apps.localhost:9811', isSecure: false, port: 9_811 }
  const { appUrl, terminalUrl } = reachOf(access, ID, { appUrl: 'unix:/app.sock', terminalUrl: 'unix:/terminal.sock' })
  expect([appUrl, terminalUrl]).toEqual([
    `http://${ID}.apps.localhost:9811/`,
    `http://${ID}-terminal.apps.localhost:9811/`,
  ])
  expect(addressOfHost(access, new URL(appUrl ?? '').host)).toEqual({ id: ID, isTerminal: false })
})

test.each([
  ['http://10.0.0.1/x/', { host: '10.0.0.1', port: 80, isTls: false, pathPrefix: '/x' }],
  ['https://app.test:8443', { host: 'app.test', port: 8443, isTls: true, pathPrefix: '' }],
  ['http://[::1]:80/', { host: '::1', port: 80, isTls: false, pathPrefix: '' }],
  ['unix:/a b/app.sock', { socketPath: '/a b/app.sock' }],
  ['ftp://x/', null],
  ['nonsense', null],
])('the target %s is read', (text, target) => {
  expect(targetOf(text)).toEqual(target)
})
