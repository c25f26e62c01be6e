/** Holds what clients received and what the provider gave against the books. */

import { listUnfoldedSlots } from '../../src/billing/admission/slots/store.ts'
import { findImbalances } from '../../src/billing/charges/store.ts'
import { verifyAll } from '../../src/billing/ledger/verifyAll.ts'
import { planCheck } from '../../src/billing/plans/verify.ts'
import type { Database } from '../../src/infra/postgres/database.ts'
import { describe } from '../../src/lib/disagreement.ts'
import { until } from '../until.ts'
import type { Received } from './caller.ts'
import type { CountingProvider } from './countingProvider.ts'
import { endsWhole } from './killPlan.ts'

/** As the settings of the kill tests say, for every model. */
const PRICE_MICROCENTS = { input: 100_000_000n, output: 200_000_000n }

interface ChargeRow {
  readonly id: string
  readonly model: string
  readonly outcome: string
  readonly estimated: boolean
  readonly prompt_tokens: bigint
  readonly completion_tokens: bigint
  readonly cost_microcents: bigint
  /** Of a charge that a plan covers. */
  readonly list_microcents: bigint | null
}

export interface Evidence {
  readonly organizationId: string
  readonly grantedMicrocents: bigint
  readonly received: readonly Received[]
  readonly provider: CountingProvider
  /** Nothing was killed: then nothing is charged but whole answers and what was broken off by provider or client. */
  readonly stoppedCleanly: boolean
}

/** Everything that is wrong, a line each; empty when the books are right. */
export async function audit(database: Database, evidence: Evidence): Promise<string[]> {
  const charges = await database.query<ChargeRow>(
    `select replace(id::text, '-', '') as id, model, outcome, estimated, prompt_tokens, completion_tokens, cost_microcents, list_microcents
     from named_charges where organization_id = $1::uuid`,
    [evidence.organizationId],
  )
  return [
    ...auditAnswers(charges, evidence),
    ...charges.flatMap((charge) => auditCharge(charge, evidence)),
    ...auditNumbers(charges),
    ...(await auditSums(database, charges, evidence)),
  ]
}

/** Every answer that was received whole is charged, once, as what it was. */
function auditAnswers(charges: readonly ChargeRow[], { received }: Evidence): string[] {
  return received.flatMap(({ call, id, whole }) => {
    if (!whole) return []
    const own = charges.filter((charge) => `chatcmpl-${charge.id}` === id)
    const [charge] = own
    if (own.length !== 1 || !charge) return [`call ${call.number}: a whole answer has ${own.length} charges`]
    const asItWas =
      charge.outcome === 'completed' &&
      charge.completion_tokens === BigInt(call.tokens) &&
      charge.prompt_tokens === BigInt(call.number) &&
      charge.model === `svc/${call.model}`
    return asItWas ? [] : [`call ${call.number}: charged as something else: ${show(charge)}`]
  })
}

/** Every charge is for a call that produced tokens, and for no more of them than there were, or for a prompt given up. */
function auditCharge(charge: ChargeRow, evidence: Evidence): string[] {
  const { received, provider, stoppedCleanly } = evidence
  const problems: string[] = []
  const sum = charge.prompt_tokens * PRICE_MICROCENTS.input + charge.completion_tokens * PRICE_MICROCENTS.output
  const list = charge.list_microcents ?? charge.cost_microcents
  if (list !== (sum + 999_999n) / 1_000_000n) problems.push('its cost is not its price')
  if (charge.list_microcents !== null && charge.cost_microcents !== 0n)
    problems.push('it is covered, and costs something')
  // A client that hangs up before the first token pays for the prompt that the model was sent (C3).
  const isPromptAlone = charge.outcome === 'cancelled' && charge.estimated && charge.prompt_tokens > 0n
  if (charge.completion_tokens <= 0n && !isPromptAlone) problems.push('no token was generated')
  const seen = received.find(({ id }) => id === `chatcmpl-${charge.id}`)
  // Only a sandbox call whose end was not reached has no usage, and so not its number.
  const call = seen?.call ?? received.find((each) => BigInt(each.call.number) === charge.prompt_tokens)?.call
  if (call === undefined && !charge.estimated)
    return [...problems, 'nobody made this call'].map((each) => `${each}: ${show(charge)}`)
  if (call !== undefined) {
    const mayBeCharged = endsWhole(call.model) || (call.model === 'breaks' && call.stream)
    if (!mayBeCharged) problems.push('this call is not to be charged')
    // A count of ours may differ by a token or two.
    if (call.model !== 'sandbox' && !charge.estimated) {
      const given = Math.max(0, ...(provider.served.get(call.number) ?? []).map(({ tokens }) => tokens))
      if (charge.completion_tokens > BigInt(given)) problems.push(`the provider gave ${given} tokens`)
    }
    const got = received.find((each) => each.call === call)
    if (stoppedCleanly && got && !got.whole && !got.hungUp && got.code === null) problems.push('its client got nothing')
  }
  return problems.map((problem) => `${problem}: ${show(charge)}`)
}

/** No call is charged twice under two charge ids. */
function auditNumbers(charges: readonly ChargeRow[]): string[] {
  const numbers = new Set<bigint>()
  return charges.flatMap((charge) => {
    if (charge.estimated) return []
    if (numbers.has(charge.prompt_tokens)) return [`call ${charge.prompt_tokens} is charged twice`]
    numbers.add(charge.prompt_tokens)
    return []
  })
}

async function auditSums(
  database: Database,
  charges: readonly ChargeRow[],
  { organizationId, grantedMicrocents }: Evidence,
): Promise<string[]> {
  const problems: string[] = []
  for (const each of await findImbalances(database)) {
    problems.push(`the books of ${each.organization_id} disagree: ${JSON.stringify(each, bigintAsText)}`)
  }
  // Charges against prices, rollups, and the meters of plans.
  for await (const found of verifyAll({ database, pause: async () => {}, checks: [planCheck] }))
    problems.push(describe(found))
  const spent = charges.reduce((total, charge) => total + charge.cost_microcents, 0n)
  // The restarted process serves before it has folded what the dead one had; then the account itself says it all.
  await until(async () => (await listUnfoldedSlots(database)).length === 0)
  const [account] = await database.query<{ balance_microcents: bigint; shares_microcents: bigint }>(
    'select balance_microcents, shares_microcents from accounts where organization_id = $1::uuid',
    [organizationId],
  )
  if (account?.balance_microcents !== grantedMicrocents - spent) {
    problems.push(`the balance is ${account?.balance_microcents}, not ${grantedMicrocents - spent}`)
  }
  if (account?.shares_microcents !== 0n) problems.push(`${account?.shares_microcents} are still granted`)
  const [dead] = await database.query<{ count: bigint }>('select count(*) as count from dead_charges')
  if (dead?.count !== 0n) problems.push(`${dead?.count} charges were refused by the database`)
  return problems
}

function show(charge: ChargeRow): string {
  return JSON.stringify(charge, bigintAsText)
}

function bigintAsText(_: string, value: unknown): unknown {
  return typeof value === 'bigint' ? value.toString() : value
}
