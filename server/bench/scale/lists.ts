/** Usage and lists of one organization with equally many charges in both databases, and the operator's list of organizations. */

import { join } from 'node:path'
import { Samples } from '../statistics.ts'
import { OWN_CHECKOUT, programIn } from '../targetTollgate.ts'
import { keyOfOrganization } from './books.ts'
import type { Scale } from './scale.ts'
import type { Side } from './side.ts'

const ASKS = 200
/** Not counted: connections, and statements that are prepared anew. */
const WARM_UP_ASKS = 5
/** Any organization of both. */
const ASKING = 50

const PATHS = [
  '/v1/usage',
  '/v1/usage?bucket=hour',
  '/v1/billing/balance',
  '/manage/v1/usage',
  '/manage/v1/charges',
  '/manage/v1/ledger',
  '/manage/v1/keys',
  '/manage/v1/audit',
  '/manage/v1/notices',
  '/manage/v1/deliveries',
]

export async function measureLists(scale: Scale): Promise<void> {
  for (const path of PATHS) {
    await compare(scale, `GET ${path}`, WARM_UP_ASKS + ASKS, WARM_UP_ASKS, (side) => askOnce(side, path))
  }
  await compare(scale, './tollgate orgs list', scale.rounds, 0, (side) => runOnce(scale, side, ['orgs', 'list']))
  await compare(scale, './tollgate orgs list --all', 1, 0, (side) => runOnce(scale, side, ['orgs', 'list', '--all']))
}

/** Does `work` so often on both sides by turns, and adds its median, and its p99 where there are enough of them. */
async function compare(
  { sides, table }: Scale,
  measure: string,
  times: number,
  uncounted: number,
  work: (side: Side) => Promise<void>,
): Promise<void> {
  const samples = sides.map(() => new Samples())
  for (let time = 0; time < times; time += 1) {
    for (const side of time % 2 === 0 ? sides : sides.toReversed()) {
      const beganAtMs = performance.now()
      await work(side)
      if (time >= uncounted) samples[sides.indexOf(side)]?.add(performance.now() - beganAtMs)
    }
  }
  const [small, large] = samples.map((each) => each.percentiles())
  if (small === undefined || large === undefined) return
  table.add({ measure: `${measure}: median`, small: small.p50, large: large.p50, unit: 'ms' })
  if (times - uncounted >= ASKS)
    table.add({ measure: `${measure}: p99`, small: small.p99, large: large.p99, unit: 'ms' })
}

async function askOnce({ port }: Side, path: string): Promise<void> {
  const headers = { Authorization: `Bearer ${keyOfOrganization(ASKING)}` }
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, { headers })
  const body = await answer.text()
  if (answer.status !== 200) throw new Error(`${path}: status ${answer.status}: ${body.slice(0, 300)}`)
}

/** A list of a million organizations takes a while. */
const COMMAND_SECONDS = 600

async function runOnce({ session }: Scale, side: Side, words: readonly string[]): Promise<void> {
  const env = ['env', `DATABASE_URL=${side.databaseUrl}`]
  const dataDir = join(session.folder, side.name, 'gateway')
  await session.processes.run([...env, programIn(OWN_CHECKOUT), ...words, '--data-dir', dataDir], COMMAND_SECONDS)
}
