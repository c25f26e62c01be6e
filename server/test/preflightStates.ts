/** States that an organization can be in, generated, and set up all together through the tables that processes write. */

import type { Enforcement } from '../src/billing/admission/gates.ts'
import { foldSlot } from '../src/billing/admission/slots/foldSlot.ts'
import type { Charge } from '../src/billing/charges/charge.ts'
import { ensureChargePartition } from '../src/billing/charges/partitions/prepare.ts'
import { postCharges } from '../src/billing/charges/post.ts'
import { drawKey, hashKey } from '../src/identity/keys/key.ts'
import type { Database } from '../src/infra/postgres/database.ts'
import { arrayLiteral } from '../src/infra/postgres/database.ts'
import { systemRandom } from '../src/infra/random.ts'
import { uuidV7 } from '../src/lib/ids.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, toTimestamp } from '../src/lib/time.ts'
import type { TestKey } from './customer.ts'

/**
 * The subscription of the organization: from `room` on it is entitled, and the name says which part of the plan is
 * used up, if any. A period that is over has its grace left, and one that is `expired` nothing of it.
 */
export const PLANS = [
  'none',
  'past_due',
  'canceled',
  'expired',
  'not renewed',
  'room',
  'room in grace',
  'input used up',
  'output used up',
  'week used up',
  'backstop used up',
  'in grace, input used up',
] as const
export type PlanCase = (typeof PLANS)[number]

/** `held`: as much as `ample`, all of it set aside for videos that are being made. */
export const BALANCES = ['none', 'low', 'ample', 'held'] as const
const FILLINGS = ['none', 'below', 'reached'] as const
type Filling = (typeof FILLINGS)[number]

export interface State {
  readonly plan: PlanCase
  readonly balance: (typeof BALANCES)[number]
  readonly daily: Filling
  readonly monthly: Filling
  readonly enforcement: Enforcement
}

/** Every state that can be set through the interface: a daily limit stands beside a monthly one. */
export function allStates(): State[] {
  const states: State[] = []
  for (const plan of PLANS) {
    for (const balance of BALANCES) {
      states.push({ plan, balance, daily: 'none', monthly: 'none', enforcement: 'block_launch' })
      for (const monthly of ['below', 'reached'] as const) {
        for (const daily of FILLINGS) {
          for (const enforcement of ['block_launch', 'stop_running', 'notify_only'] as const) {
            states.push({ plan, balance, daily, monthly, enforcement })
          }
        }
      }
    }
  }
  return states
}

const DOLLAR = 100_000_000n
const BALANCE_OF = { none: 0n, low: 1n, ample: 25n * DOLLAR, held: 25n * DOLLAR }
/** The amount that was charged before, to the balance, on the day that the state is set up for. */
const SPENT = DOLLAR
const limitOf = (filling: Filling) => ({ none: null, below: 100n * DOLLAR, reached: SPENT })[filling]

const heldOf = ({ balance }: State) => (balance === 'held' ? BALANCE_OF.held : 0n)

/** Of the plan `small`: 100 weighted tokens each, 150 a week, and a dollar by list price. */
const USED: Readonly<Record<PlanCase, readonly [input: bigint, output: bigint, list: bigint]>> = {
  none: [0n, 0n, 0n],
  past_due: [0n, 0n, 0n],
  canceled: [0n, 0n, 0n],
  expired: [0n, 0n, 0n],
  'not renewed': [0n, 0n, 0n],
  room: [60n, 60n, DOLLAR - 1n],
  'room in grace': [60n, 60n, DOLLAR - 1n],
  'input used up': [100n, 0n, 1n],
  'output used up': [0n, 100n, 1n],
  'week used up': [75n, 75n, 1n],
  'backstop used up': [1n, 1n, DOLLAR],
  'in grace, input used up': [100n, 0n, 1n],
}

/** A slot that no process of the test has. */
const SLOT = 900
const STATEMENT_ROWS = 500

/** Makes an organization with a key for each state, by a few statements in all; the keys in the order of the states. */
export async function setUpStates(database: Database, states: readonly State[], nowMs: number): Promise<TestKey[]> {
  const random = systemRandom()
  const id = () => uuidV7(nowMs, random)
  const customers = states.map((state) => ({ state, organizationId: id(), id: id(), key: drawKey(random) }))
  const column = (pick: (customer: (typeof customers)[number]) => string | bigint | null) =>
    arrayLiteral(customers.map(pick))
  const organizations = column(({ organizationId }) => organizationId)
  const at = toTimestamp(nowMs - DAY_MS)
  await database.query(
    `insert into organizations (id, name, standing, created_at)
     select o, 'state ' || o, 'established', $2::timestamptz from unnest($1::text::uuid[]) o`,
    [organizations, at],
  )
  await database.query(
    `insert into api_keys (id, organization_id, hash, scopes, admin, created_at)
     select k.id, k.organization, decode(k.hash, 'hex'), 'full_access', false, $4::timestamptz
     from unnest($1::text::uuid[], $2::text::uuid[], $3::text::text[]) k (id, organization, hash)`,
    [column((customer) => customer.id), organizations, column(({ key }) => hashKey(key)), at],
  )
  // All have spent something, so that limits can be reached; it was credited before.
  const credit = column(({ state }) => BALANCE_OF[state.balance] + SPENT)
  await database.query(
    `insert into ledger_entries (id, organization_id, amount_microcents, kind, source, posted_at)
     select gen_random_uuid(), c.organization, c.amount, 'credit', 'state:' || c.organization, $3::timestamptz
     from unnest($1::text::uuid[], $2::text::bigint[]) c (organization, amount)`,
    [organizations, credit, at],
  )
  await database.query(
    `insert into accounts (organization_id, balance_microcents, held_microcents, daily_limit_microcents,
       monthly_limit_microcents, enforcement)
     select * from unnest($1::text::uuid[], $2::text::bigint[], $3::text::bigint[], $4::text::bigint[], $5::text::bigint[],
       $6::text::text[])`,
    [
      organizations,
      credit,
      column(({ state }) => heldOf(state)),
      column(({ state }) => limitOf(state.daily)),
      column(({ state }) => limitOf(state.monthly)),
      column(({ state }) => state.enforcement),
    ],
  )
  await database.query(
    `insert into holds (id, organization_id, amount_microcents)
     select gen_random_uuid(), h.organization, h.amount
     from unnest($1::text::uuid[], $2::text::bigint[]) h (organization, amount) where h.amount > 0`,
    [organizations, column(({ state }) => heldOf(state))],
  )
  await subscribe(database, customers, nowMs)
  await ensureChargePartition(database, nowMs)
  const charges = customers.flatMap(({ state, organizationId, id: keyId }) =>
    spentBefore(state, organizationId, keyId, nowMs),
  )
  for (let from = 0; from < charges.length; from += STATEMENT_ROWS) {
    await postCharges(database, SLOT, charges.slice(from, from + STATEMENT_ROWS), nowMs)
  }
  while (await database.transaction((tx) => foldSlot(tx, SLOT, nowMs)));
  return customers.map(({ id: keyId, key, organizationId }) => ({ id: keyId, key, organizationId }))
}

async function subscribe(
  database: Database,
  customers: readonly { readonly state: State; readonly organizationId: string }[],
  nowMs: number,
): Promise<void> {
  const subscribed = customers.filter(({ state }) => state.plan !== 'none')
  const status = ({ plan }: State) => (plan === 'past_due' || plan === 'canceled' ? plan : 'active')
  const endMs = ({ plan }: State) => {
    if (plan === 'expired') return nowMs - HOUR_MS
    return plan === 'not renewed' || plan.includes('in grace') ? nowMs - MINUTE_MS : nowMs + 20 * DAY_MS
  }
  await database.query(
    `insert into subscriptions (organization_id, plan, status, period_start, period_end, cancel_at_period_end, changed_at)
     select s.organization, 'small', s.status, $4::timestamptz, s.until, s.is_cancelled, $4::timestamptz
     from unnest($1::text::uuid[], $2::text::text[], $3::text::timestamptz[], $5::text::boolean[])
       s (organization, status, until, is_cancelled)`,
    [
      arrayLiteral(subscribed.map(({ organizationId }) => organizationId)),
      arrayLiteral(subscribed.map(({ state }) => status(state))),
      arrayLiteral(subscribed.map(({ state }) => toTimestamp(endMs(state)))),
      toTimestamp(nowMs - 10 * DAY_MS),
      arrayLiteral(subscribed.map(({ state }) => `${state.plan === 'not renewed'}`)),
    ],
  )
}

/** One charge to the balance, and where something is used of the plan one that it covered. */
function spentBefore({ plan }: State, organizationId: string, keyId: string, nowMs: number): Charge[] {
  const charge = {
    chargeId: uuidV7(nowMs, systemRandom()),
    admittedAtMs: nowMs,
    organizationId,
    keyId,
    model: 'svc/before',
    tier: 'serverless',
    priceHash: new Uint8Array(32),
    usage: { promptTokens: 1, cachedPromptTokens: 0, completionTokens: 1 },
    estimated: false,
    costMicrocents: SPENT,
    target: 'mock/before',
    outcome: 'completed',
  } as const satisfies Charge
  const [inputTokens, outputTokens, listMicrocents] = USED[plan]
  if (listMicrocents === 0n) return [charge]
  const covered: Charge = {
    ...charge,
    chargeId: uuidV7(nowMs, systemRandom()),
    costMicrocents: 0n,
    cover: { periodStartMs: nowMs - 10 * DAY_MS, factorThousandths: 1_000 },
    metered: { inputTokens, outputTokens, listMicrocents },
  }
  return [charge, covered]
}
