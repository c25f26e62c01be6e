import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test'
import { createServer, type Server } from 'node:net'
import { certificateFor } from '../../../test/certificate.ts'
import { TurnedClock } from '../../../test/clock.ts'
import { makeCustomer } from '../../../test/customer.ts'
import { mailNotices } from '../../../test/mailNotices.ts'
import { type MailServer, type MailServerOptions, openMailServer } from '../../../test/mailServer.ts'
import { type FreshDatabase, freshDatabase } from '../../../test/postgres.ts'
import { until } from '../../../test/until.ts'
import { findOrganizationById } from '../../identity/organizations/find.ts'
import { createLog } from '../../infra/log.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { systemRandom } from '../../infra/random.ts'
import { createMailTransport } from '../../infra/smtp.ts'
import { mailHandler } from '../../jobs/mail.ts'
import { createJobs } from '../../jobs/runJobs.ts'
import type { Runner } from '../../jobs/runner.ts'
import { claimJobs, makeReady } from '../../jobs/store.ts'
import type { SmtpServer } from '../../lib/mail.ts'
import { quotedName } from '../../lib/nameCharacters.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../lib/time.ts'
import { createNoticeMailer, type NoticeMailer } from './noticeMailer.ts'

let fresh: FreshDatabase
let clock: TurnedClock
let logs: string[]
let servers: MailServer[]
let noticeMailers: NoticeMailer[]
let runners: Runner[]
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())
beforeEach(async () => {
  await fresh.database.query('delete from notices')
  await fresh.database.query('delete from jobs')
  clock = new TurnedClock(Date.UTC(2030, 0, 15, 12))
  logs = []
  servers = []
  noticeMailers = []
  runners = []
})
afterEach(async () => {
  for (const each of [...noticeMailers, ...runners]) {
    const closing = each.close()
    await clock.turn(MINUTE_MS)
    await closing
  }
  // A runner waits by the clock, which is turned; a busy database may be later, and claim what the next test has made.
  await until(() => statements === 0)
  for (const server of servers) await server.close()
})

/** Statements and transactions of processes that have not ended. */
let statements = 0
function counting(database: Database): Database {
  const counted = async <T>(work: Promise<T>): Promise<T> => {
    statements += 1
    return work.finally(() => {
      statements -= 1
    })
  }
  return {
    ...database,
    query: (...statement) => counted(database.query(...statement)),
    transaction: (...work) => counted(database.transaction(...work)),
  }
}

async function mailServer(options: MailServerOptions = {}): Promise<MailServer> {
  const server = await openMailServer(options)
  servers.push(server)
  return server
}

/** A process that handles notices and sends their mails; `run` also looks for mails that are due. */
function noticeMailer(port: number, more: Partial<SmtpServer> = {}): Pick<NoticeMailer, 'run'> {
  const server: SmtpServer = {
    host: '127.0.0.1',
    port,
    tls: 'none',
    login: null,
    from: 'Tollgate <billing@tollgate.test>',
    ...more,
  }
  const log = createLog('debug', { write: (line) => void logs.push(line) })
  const jobHandlers = [mailHandler(createMailTransport(server, clock), clock)]
  const database = counting(fresh.database)
  const jobs = createJobs({ database, clock, random: systemRandom(), log, jobHandlers })
  const made = createNoticeMailer({ database, clock, log, sendsMail: true, hasAccounts: false, onEnqueued: jobs.wake })
  noticeMailers.push(made)
  runners.push(jobs)
  jobs.start()
  return {
    async run() {
      await made.run()
      jobs.wake()
    },
  }
}

/** An organization that something was noted for, with these addresses. */
async function noted(addresses: readonly string[], days = 1): Promise<string> {
  const { organizationId } = await makeCustomer(fresh.database, { cents: 0 })
  await mailNotices(fresh.database, organizationId, addresses)
  const name = (await findOrganizationById(fresh.database, organizationId))?.name ?? ''
  await fresh.database.query(
    `insert into notices (organization_id, kind, period, amount_microcents, limit_microcents, enforcement, noticed_at)
     select $1::uuid, 'daily', '2030-01-01'::timestamptz + day * interval '1 day', 12, 10, 'notify_only', $3::timestamptz
     from generate_series(1, $2::integer) as day`,
    [organizationId, days, new Date(clock.now())],
  )
  return name
}

const underWay = async () => (await fresh.database.query('select id from jobs where ended_at is null')).length
const inWork = async () => (await fresh.database.query("select id from jobs where state = 'running'")).length
const logged = (words: string) => logs.filter((line) => line.includes(words)).length

test('a notice is logged once and mailed once to each address, and nothing of it is left under way', async () => {
  const server = await mailServer()
  const name = await noted(['a@example.com', 'b@example.com'])
  const first = noticeMailer(server.port)
  await first.run()
  await server.arrived(2)
  await until(async () => (await underWay()) === 0)
  await first.run()
  await noticeMailer(server.port).run()
  expect(server.mails.map(({ to }) => to).sort()).toEqual(['a@example.com', 'b@example.com'])
  expect(logged('reached its daily spending limit')).toBe(1)
  expect(server.mails[0]?.text).toContain(`${quotedName(name)} has reached its daily spending limit.`)
  expect(logs.join()).not.toContain('@example.com')
})

test('while the mail server is down a notice waits, and is mailed once when it is up again', async () => {
  let isDown = true
  const server = await mailServer({ isDown: () => isDown })
  await noted(['a@example.com'])
  const only = noticeMailer(server.port)
  await only.run()
  await until(() => logged('a job failed; it is tried again') === 1)
  isDown = false
  await only.run()
  expect(server.mails).toHaveLength(0)
  await clock.turn(MINUTE_MS)
  await only.run()
  await server.arrived(1)
  await until(async () => (await underWay()) === 0)
  expect(server.mails).toHaveLength(1)
})

test('one address that is refused keeps no other waiting, and is given up after a day', async () => {
  const server = await mailServer({ refused: 'full@example.com' })
  await noted(['full@example.com', 'b@example.com'])
  const only = noticeMailer(server.port)
  for (let tries = 1; tries <= 8; tries += 1) {
    await only.run()
    // More, where the round of before still looks for mails when the clock is turned.
    await until(() => logged('a job failed') >= tries)
    // The other one's mail is on its way beside it, and a clock that is turned now would end that as late.
    if (tries === 1) await until(async () => (await underWay()) === 1)
    await clock.turn(12 * HOUR_MS)
  }
  await until(async () => (await underWay()) === 0)
  expect(server.mails.map(({ to }) => to)).toEqual(['b@example.com'])
  expect(logged('is given up; check the settings under')).toBe(1)
  expect(logs.join()).toContain('450')
})

test('many processes at once mail each notice once', async () => {
  const server = await mailServer()
  await noted(['a@example.com', 'b@example.com'], 12)
  await Promise.all([1, 2, 3].map(() => noticeMailer(server.port).run()))
  await until(async () => (await underWay()) === 0)
  expect(server.mails).toHaveLength(24)
  expect(new Set(server.mails.map(({ messageId }) => messageId)).size).toBe(24)
  expect(logged('reached its daily spending limit')).toBe(12)
})

test('notices that a killed process had taken are mailed by another, under the same message id', async () => {
  const server = await mailServer()
  const database = fresh.database
  await noted(['a@example.com'])
  const log = createLog('info', { write: (line) => void logs.push(line) })
  await createNoticeMailer({ database, clock, log, sendsMail: true, hasAccounts: false, onEnqueued: () => {} }).run()
  await makeReady(database, clock.now(), 1)
  const claim = {
    kind: 'mail',
    afterOrganizationId: '00000000-0000-0000-0000-000000000000',
    without: [],
    own: [],
    limit: 8,
  }
  const lease = crypto.randomUUID()
  expect(await claimJobs(database, { ...claim, lease, untilMs: clock.now() + MINUTE_MS })).toHaveLength(1)
  const other = noticeMailer(server.port)
  await other.run()
  await clock.turn(MINUTE_MS - 1)
  await other.run()
  expect(server.mails).toHaveLength(0)
  await clock.turn(1)
  await other.run()
  await server.arrived(1)
  expect(server.mails[0]?.messageId).toMatch(/^[0-9a-f]{32}@tollgate\.test$/)
})

test('a server that takes its time with the mails of one organization holds up no other organization, and no notice', async () => {
  let release = () => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  let begun = 0
  const server = await mailServer({
    onMail: () => {
      begun += 1
      return held
    },
  })
  await noted(['a@example.com'], 6)
  const only = noticeMailer(server.port)
  await only.run()
  await until(() => begun === 4)
  await noted(['b@example.com'])
  await only.run()
  expect(logged('reached its daily spending limit')).toBe(7)
  await until(() => begun === 5)
  expect(await inWork()).toBe(5)
  release()
  await server.arrived(7)
  await until(async () => (await underWay()) === 0)
})

test('a server that never says anything is given up after a minute', async () => {
  const connected: unknown[] = []
  const silent: Server = createServer((socket) => {
    connected.push(socket)
    socket.on('error', () => {})
  })
  await new Promise<void>((resolve) => {
    silent.listen(0, '127.0.0.1', resolve)
  })
  const address = silent.address()
  await noted(['a@example.com'])
  await noticeMailer(address !== null && typeof address === 'object' ? address.port : 0).run()
  await until(() => connected.length === 1)
  await clock.turn(MINUTE_MS)
  await until(() => logged('ETIMEDOUT') === 1)
  await new Promise((resolve) => silent.close(resolve))
})

test('nothing is sent in the clear to a server that offers no encryption where that is asked for', async () => {
  const server = await mailServer()
  await noted(['a@example.com'])
  await noticeMailer(server.port, { tls: 'starttls' }).run()
  await until(() => logged('tried again') === 1)
  expect(server.mails).toHaveLength(0)
})

test.each(['starttls', 'implicit'] as const)('nor to one whose certificate nobody vouches for: %s', async (tls) => {
  const server = await mailServer({ tls: { ...(await certificateFor('localhost')), implicit: tls === 'implicit' } })
  await noted(['a@example.com'])
  await noticeMailer(server.port, { tls, host: 'localhost' }).run()
  await until(() => logged('tried again') === 1)
  expect([server.mails, logged('ESOCKET')]).toEqual([[], 1])
})

test('without a mail server notices are logged, and old ones are dropped', async () => {
  await noted(['a@example.com'])
  const log = createLog('info', { write: (line) => void logs.push(line) })
  const only = createNoticeMailer({
    database: fresh.database,
    clock,
    log,
    sendsMail: false,
    hasAccounts: false,
    onEnqueued: () => {},
  })
  await only.run()
  expect([logged('reached its daily spending limit'), await underWay()]).toEqual([1, 0])
  await clock.turn(101 * DAY_MS)
  await only.run()
  expect(await fresh.database.query('select 1 from notices')).toEqual([])
})
