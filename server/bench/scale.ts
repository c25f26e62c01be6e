/** The cost of many organizations: a large database beside a small one, in one run. README.md explains it. */

import { describeConditions, describeMachine } from './machine.ts'
import { atLeastOne, readOptions } from './options.ts'
import type { BooksSize } from './scale/books.ts'
import { measureBooksBesideChat } from './scale/booksWork.ts'
import { measureCalls } from './scale/calls.ts'
import { measureDeliveries } from './scale/deliveries.ts'
import { disagreementsOfAll } from './scale/disagreements.ts'
import { measureIdle } from './scale/idle.ts'
import { measureIdleCrowd } from './scale/idleCrowd.ts'
import { measureLists } from './scale/lists.ts'
import { measureQueryPlans } from './scale/queryPlans.ts'
import { measureReload } from './scale/reload.ts'
import { measureRenewals } from './scale/renewals.ts'
import { measureRetention } from './scale/retention.ts'
import type { Scale } from './scale/scale.ts'
import { openSide, type Side } from './scale/side.ts'
import { measureStarts } from './scale/starts.ts'
import { Table } from './scale/table.ts'
import { measureTwiceTheDays, measureVerification } from './scale/verification.ts'
import { runCommand, type Session } from './session.ts'

/** In the order in which they are made. */
const MEASURES: Readonly<Record<string, (scale: Scale) => Promise<void>>> = {
  calls: measureCalls,
  starts: measureStarts,
  lists: measureLists,
  verification: measureVerification,
  retention: measureRetention,
  reload: measureReload,
  deliveries: measureDeliveries,
  books: measureBooksBesideChat,
  renewals: measureRenewals,
  idle: measureIdle,
  crowd: measureIdleCrowd,
  'query-plans': measureQueryPlans,
}

const USAGE = `usage: bun server/bench/scale.ts [--organizations 10000] [--charges 200000] [--days 60] [--crowd 2000]
         [--rounds 3] [--calls 300] [--seconds 10] [--chat-rate 100] [--deliveries 2000] [--idle-seconds 30]
         [--only NAME,NAME] [--twice] [--idle] [--skip-idle] [--keep]
  --organizations, --charges, --days   of the large database; the small one has 100, 2,000 and as many days
  --crowd         organizations that have called just before a restart, and before a minute without calls
  --rounds        how often calls, starts and commands take their turns
  --seconds       of chat beside something else, and of quiet chat before it
  --only          of ${Object.keys(MEASURES).join(', ')}; left out: all
  --twice         verifies a day of a third database too, with twice as many days
  --idle          measures 1, 4 and 16 processes without calls too
  --skip-idle     does not wait until a crowd has been idle for a minute`

/** By hand, a database of 20 million charges takes half an hour to fill, and as long to measure and verify. */
const LIMIT_SECONDS = 6 * 3_600

const SMALL = { organizations: 100, charges: 2_000 }

const { text, flags } = readOptions(
  USAGE,
  {
    ...{ organizations: '10000', charges: '200000', days: '60', crowd: '2000', rounds: '3', calls: '300', only: '' },
    ...{ seconds: '10', 'chat-rate': '100', deliveries: '2000', 'idle-seconds': '30' },
  },
  ['twice', 'idle', 'skip-idle', 'keep'],
)
const days = atLeastOne('days', text['days'])
const small: BooksSize = { ...SMALL, days }
const large: BooksSize = {
  organizations: atLeastOne('organizations', text['organizations']),
  charges: atLeastOne('charges', text['charges']),
  days,
}
const named = (text['only'] ?? '').split(',').filter((name) => name !== '')
const unknown = named.find((name) => MEASURES[name] === undefined)
if (unknown !== undefined) {
  console.error(`--only takes ${Object.keys(MEASURES).join(', ')}, separated by commas; not '${unknown}'`)
  process.exit(2)
}
/** Those that take minutes of waiting have flags of their own. */
const leftOut = { idle: flags['idle'] !== true, crowd: flags['skip-idle'] === true }
const measures = Object.entries(MEASURES).filter(([name]) =>
  named.length === 0 ? leftOut[name as keyof typeof leftOut] !== true : named.includes(name),
)

await runCommand(LIMIT_SECONDS, flags['keep'] === true, async (session) => {
  console.log(describeMachine())
  console.log(`before: ${describeConditions(session.folder)}`)
  const [mock] = await session.startTargets([], [], 0)
  if (mock === undefined) throw new Error('the mock provider was not started')
  const sides = [
    await openTimed(session, 'small', small, mock.port),
    await openTimed(session, 'large', large, mock.port),
  ] as const
  for (const side of sides) await side.start()
  const table = new Table()
  const scale: Scale = {
    ...{ session, sides, table, mockPort: mock.port },
    rounds: atLeastOne('rounds', text['rounds']),
    calls: atLeastOne('calls', text['calls']),
    crowd: atLeastOne('crowd', text['crowd']),
    seconds: atLeastOne('seconds', text['seconds']),
    chatRate: atLeastOne('chat-rate', text['chat-rate']),
    deliveries: atLeastOne('deliveries', text['deliveries']),
    idleSeconds: atLeastOne('idle-seconds', text['idle-seconds']),
  }
  const failed: string[] = []
  try {
    await makeAll(scale, failed)
    for (const side of sides) await side.stop()
    for (const side of sides) console.log(await verdictOf(side, 'after everything'))
    console.log(`after: ${describeConditions(session.folder)}`)
  } finally {
    console.log(`\n${table}`)
  }
  if (failed.length > 0) throw new Error(`these measures failed: ${failed.join(', ')}`)
})

/** Makes the measures, and adds the names of those that failed: they lose nothing that others have found in hours. */
async function makeAll(scale: Scale, failed: string[]): Promise<void> {
  const { table, sides } = scale
  for (const [name, measure] of measures) {
    console.log(`${name}:`)
    try {
      await measure(scale)
    } catch (error) {
      failed.push(name)
      table.note(`${name}: failed: ${error instanceof Error ? error.message : String(error)}`)
      for (const side of sides) await side.startAfresh()
    }
  }
  if (flags['twice'] === true) await measureTwiceTheDays(scale)
  else table.note('verification of twice as many days: not measured; --twice fills a third database for it')
  for (const name of Object.keys(MEASURES)) {
    if (!measures.some(([made]) => made === name)) table.note(`${name}: not measured in this run`)
  }
}

/** Opens a side, and says how long filling it took. */
async function openTimed(session: Session, name: string, size: BooksSize, mockPort: number): Promise<Side> {
  const beganAtMs = performance.now()
  const side = await openSide(session, name, size, mockPort)
  const seconds = ((performance.now() - beganAtMs) / 1_000).toFixed(1)
  console.log(
    `${name}: ${size.organizations} organizations, ${size.charges} charges of ${size.days} days, filled in ${seconds} s`,
  )
  return side
}

/** Throws where the books disagree: nothing that was measured of them would count. */
async function verdictOf({ name, database }: Side, when: string): Promise<string> {
  const beganAtMs = performance.now()
  const found = await disagreementsOfAll(database)
  if (found.length > 0)
    throw new Error(`the ${name} books disagree ${when}: ${JSON.stringify(found.slice(0, 3), print)}`)
  return `${name}: the books agree ${when} (${((performance.now() - beganAtMs) / 1_000).toFixed(1)} s)`
}

function print(_: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value
}
