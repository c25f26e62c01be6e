import { z } from 'zod'
import { DEPOSIT_ASSETS, DEPOSIT_CHAINS } from '../../../catalog/depositChain.ts'
import type { DepositSettings } from '../../../catalog/settings.ts'
import type { ExplainIssue } from '../../../http/faults.ts'
import { jsonAnswer, keptJson } from '../../../http/jsonAnswer.ts'
import type { Prepare } from '../../../http/onceForKey.ts'
import type { Handle } from '../../../http/pipeline.ts'
import type { KeyOrSession } from '../../../http/principal.ts'
import { validate } from '../../../http/validate.ts'
import type { Noter } from '../../../identity/audit/note.ts'
import type { Queryable } from '../../../infra/postgres/database.ts'
import { refusal } from '../../../lib/errors.ts'
import { MICROCENTS_PER_CENT, toCentsRoundingDown } from '../../../lib/money.ts'
import { ok, refused } from '../../../lib/result.ts'
import { toTimestamp } from '../../../lib/time.ts'
import { type CreateDepositDependencies, createDeposit } from './create.ts'
import {
  DEPOSIT_STATUSES,
  type FoundDeposit,
  printUnits,
  type ShowAddress,
  statusAt,
  UNITS_PER_CENT,
} from './deposit.ts'
import { findDeposit, listDeposits } from './find.ts'

const LISTED_MOST = 50

/** A hundred million dollars. */
const AMOUNT_CENTS_MOST = 10_000_000_000

const chain = z.enum(DEPOSIT_CHAINS)
const asset = z.enum(DEPOSIT_ASSETS)

export function depositRequestOf({ minDepositCents }: Pick<DepositSettings, 'minDepositCents'>) {
  return z
    .strictObject({
      amount_cents: z.int().min(minDepositCents).max(AMOUNT_CENTS_MOST).meta({ description: 'US cents.' }),
      chain,
      asset,
    })
    .meta({ id: 'CryptoDepositRequest' })
}

export const cryptoDeposit = z
  .object({
    deposit_id: z.string(),
    status: z.enum(DEPOSIT_STATUSES),
    chain,
    asset,
    amount_usd_cents: z.int().meta({ description: 'The amount that was asked for, never what has come.' }),
    created_at: z.iso.datetime(),
    pay_address: z.string().optional().meta({ description: 'Only of this deposit.' }),
    pay_amount: z.string().optional().meta({ description: 'The exact amount of tokens to send, a decimal number.' }),
    expires_at: z.iso.datetime().optional().meta({ description: 'Send nothing after this time.' }),
    tx_hash: z
      .string()
      .optional()
      .meta({ description: 'The hash of the latest transaction; on Solana its signature.' }),
    credited_cents: z.int().optional().meta({ description: 'Absent until something is credited; rounded down.' }),
  })
  .meta({ id: 'CryptoDeposit' })

export const cryptoDepositList = z
  .object({
    deposits: z.array(cryptoDeposit),
    min_deposit_cents: z.int().meta({ description: 'The least that a deposit may be of.' }),
  })
  .meta({ id: 'CryptoDepositList' })

const NO_DEPOSIT = refusal('deposit-not-found', 'There is no such deposit; GET /v1/billing/deposits lists yours.')

export interface DepositHttpDependencies extends CreateDepositDependencies {
  /** For reads whose clients wait. */
  readonly reads: Queryable
  readonly settings: DepositSettings
  readonly showAddress: ShowAddress
  /** Writes changes into the audit log. */
  readonly noter: Noter
}

/** POST /billing/deposits/crypto. */
export function postDeposit(dependencies: DepositHttpDependencies): Prepare<KeyOrSession> {
  const { settings } = dependencies
  const request = depositRequestOf(settings)
  const explain: ExplainIssue = ({ path: [field] }, body) =>
    (field === 'chain' || field === 'asset') && typeof (body as Record<string, unknown>)[field] === 'string'
      ? unsupported(settings)
      : null
  return (call) => {
    const checked = validate(request, call.body, 'validation-error', explain, 'validation-error')
    if (!checked.ok) return checked
    const wanted = checked.value
    const supported = settings.chains.find((each) => each.chain === wanted.chain && each.tokens[wanted.asset])
    if (supported === undefined) return refused(unsupported(settings))
    return ok(async (attempt) => {
      const note = dependencies.noter(call)
      const after = { amount_cents: wanted.amount_cents, chain: supported.chain, asset: wanted.asset }
      const made = await createDeposit(dependencies, {
        organizationId: call.principal.organizationId,
        chain: supported.chain,
        asset: wanted.asset,
        amountCents: wanted.amount_cents,
        keep: async (deposit) => [
          note({ action: 'deposit.created', subjectId: deposit.id, before: null, after }),
          ...((await attempt?.keep(keptJson(toWire({ ...deposit, hasDropped: false }, dependencies), 201))) ?? []),
        ],
      })
      return jsonAnswer(toWire({ ...made, hasDropped: false }, dependencies), 201)
    })
  }
}

function unsupported({ chains }: DepositSettings) {
  const pairs = chains.flatMap(({ chain: name, tokens }) =>
    DEPOSIT_ASSETS.filter((each) => tokens[each] !== undefined).map((each) => `${each} on ${name}`),
  )
  return refusal(
    'unsupported-chain-asset',
    `This server takes ${pairs.join(', ')}; use one of these pairs of 'chain' and 'asset'.`,
  )
}

/** GET /billing/deposits. */
export function showDeposits(dependencies: DepositHttpDependencies): Handle<KeyOrSession> {
  return async ({ principal }) => {
    const deposits = await listDeposits(dependencies.reads, principal.organizationId, LISTED_MOST)
    const body: z.infer<typeof cryptoDepositList> = {
      deposits: deposits.map((each) => toWire(each, dependencies)),
      min_deposit_cents: dependencies.settings.minDepositCents,
    }
    return jsonAnswer(body)
  }
}

/** GET /billing/deposits/{id}. */
export function showDeposit(dependencies: DepositHttpDependencies): Handle<KeyOrSession> {
  return async ({ parameters: [id = ''], principal }) => {
    const found = await findDeposit(dependencies.reads, principal.organizationId, id)
    return found === null ? NO_DEPOSIT : jsonAnswer(toWire(found, dependencies))
  }
}

function toWire(
  deposit: FoundDeposit,
  { clock, showAddress }: Pick<DepositHttpDependencies, 'clock' | 'showAddress'>,
): z.infer<typeof cryptoDeposit> {
  const { amountCents, creditedMicrocents, txHash } = deposit
  const isCredited = creditedMicrocents >= MICROCENTS_PER_CENT || deposit.status.startsWith('credited')
  return {
    deposit_id: deposit.id,
    status: statusAt(deposit, clock.now()),
    chain: deposit.chain,
    asset: deposit.asset,
    amount_usd_cents: amountCents,
    created_at: toTimestamp(deposit.createdAtMs),
    pay_address: showAddress(deposit.chain, deposit.address),
    pay_amount: printUnits(BigInt(amountCents) * UNITS_PER_CENT),
    expires_at: toTimestamp(deposit.expiresAtMs),
    ...(txHash === null ? {} : { tx_hash: txHash }),
    ...(isCredited ? { credited_cents: toCentsRoundingDown(creditedMicrocents) } : {}),
  }
}
