import type { DepositSettings } from '../catalog/settings.ts'
import { findOrganizationByName, namesOfOrganizations } from '../identity/organizations/find.ts'
import { createLog } from '../infra/log.ts'
import type { Database } from '../infra/postgres/database.ts'
import { EXIT, printProblems } from '../lib/commandOutput.ts'
import { isUuid } from '../lib/ids.ts'
import { MICROCENTS_PER_CENT } from '../lib/money.ts'
import { shortInstant, table } from '../lib/table.ts'
import { type Clock, toTimestamp } from '../lib/time.ts'
import { printUsd } from '../lib/usd.ts'
import { parseUnits, printUnits, statusAt } from '../payments/deposits/deposit/deposit.ts'
import { findDeposit, listDeposits } from '../payments/deposits/deposit/find.ts'
import { listTransfers } from '../payments/deposits/operator/list.ts'
import { planSweep, SWEEP_COLUMNS } from '../payments/deposits/operator/sweepPlan.ts'
import { decideHeld } from '../payments/deposits/transfers/decide.ts'
import {
  CONFIG_OPTION,
  type Command,
  CommandFailure,
  DATA_DIR_OPTION,
  type Invocation,
  UsageFailure,
} from './command.ts'
import type { CommandContext } from './context.ts'
import { configOf, orThrow, withDatabase } from './environment.ts'
import { noteOf } from './note.ts'
import { LIMIT_OPTION, limitOf } from './window.ts'

/** `tollgate deposits list [--org NAME]` */
export const listDepositsCommand: Command = {
  words: ['deposits', 'list'],
  summary: 'List stablecoin deposits, the newest first',
  options: [{ name: 'org', value: 'NAME', summary: 'only those of this organization' }, LIMIT_OPTION, DATA_DIR_OPTION],
  examples: ['tollgate deposits list --org acme'],
  run: (invocation, context) => {
    const limit = limitOf(invocation)
    const name = invocation.text('org')
    return withDatabase(invocation, context, async (database, clock) => {
      const only = name === undefined ? null : orThrow(await findOrganizationByName(database, name))
      const deposits = await listDeposits(database, only?.id ?? null, limit)
      const names = await namesOfOrganizations(
        database,
        deposits.map(({ organizationId }) => organizationId),
      )
      const { showAddress } = await import('../payments/deposits/open.ts')
      const rows = deposits.map((deposit) => ({
        id: deposit.id,
        org: names.get(deposit.organizationId) ?? deposit.organizationId,
        status: statusAt(deposit, clock.now()),
        chain: deposit.chain,
        asset: deposit.asset,
        amount_usd: printUsd(BigInt(deposit.amountCents) * MICROCENTS_PER_CENT),
        credited_usd: printUsd(deposit.creditedMicrocents),
        address: showAddress(deposit.chain, deposit.address),
        tx_hash: deposit.txHash,
        created_at: toTimestamp(deposit.createdAtMs),
        expires_at: toTimestamp(deposit.expiresAtMs),
      }))
      return {
        json: { deposits: rows },
        text: table(
          ['CREATED', 'ID', 'ORGANIZATION', 'CHAIN', 'ASSET', 'USD', 'CREDITED', 'STATUS'],
          rows.map((row) => [
            shortInstant(row.created_at),
            row.id,
            row.org,
            row.chain,
            row.asset,
            row.amount_usd,
            row.credited_usd,
            row.status,
          ]),
          'There are no deposits.',
          context.stdoutColumns,
        ),
      }
    })
  },
}

/** `tollgate deposits show ID` */
export const showDepositCommand: Command = {
  words: ['deposits', 'show'],
  summary: 'Show what has come to a deposit, the newest first, wrong tokens too, and why it is held or rejected',
  argument: { name: 'ID', summary: 'the deposit, from "tollgate deposits list"' },
  options: [DATA_DIR_OPTION],
  examples: ['tollgate deposits show 01993f8e-5c7b-7e0b-8a35-c1f2d3e4a5b6'],
  run: (invocation, context) =>
    withDatabase(invocation, context, async (database) => {
      const id = invocation.argument
      if ((await findDeposit(database, null, id)) === null)
        throw new CommandFailure(`there is no deposit ${id}: "tollgate deposits list" shows all`)
      const { transfers, isWhole } = await listTransfers(database, id)
      const rows = transfers.map((transfer) => ({
        detected_at: toTimestamp(transfer.detectedAtMs),
        state: transfer.state,
        token: transfer.token,
        units: transfer.units.toString(),
        sender: transfer.sender,
        senders: [transfer.sender, ...transfer.otherSenders],
        tx_hash: transfer.transactionHash,
        ordinal: transfer.ordinal,
        block: transfer.blockNumber,
        reason: transfer.reason,
      }))
      const heldUnits = transfers.reduce((sum, { state, units }) => (state === 'held' ? sum + units : sum), 0n)
      const held = heldUnits === 0n ? '' : `Held: ${printUnits(heldUnits)}. Release or reject it with --amount.\n`
      const more = isWhole ? '' : `There are more: these are the newest ${rows.length}.\n`
      const shown = table(
        ['DETECTED', 'STATE', 'UNITS', 'TOKEN', 'TRANSACTION', 'REASON'],
        rows.map((row) => [
          shortInstant(row.detected_at),
          row.state,
          row.units,
          row.token,
          row.tx_hash,
          row.reason ?? '',
        ]),
        'Nothing has come to this deposit.',
        context.stdoutColumns,
      )
      return { json: { transfers: rows, has_more: !isWhole, held: printUnits(heldUnits) }, text: shown + held + more }
    }),
}

const AMOUNT_OPTION = {
  name: 'amount',
  value: 'AMOUNT',
  summary: 'the amount that is held, from "tollgate deposits show"; refused if it has grown since',
  required: true,
} as const

/** `tollgate deposits release ID --amount AMOUNT` */
export const releaseDepositCommand: Command = {
  words: ['deposits', 'release'],
  summary: 'Credit what has come to a deposit and is held by its screening',
  argument: { name: 'ID', summary: 'the deposit, from "tollgate deposits list"' },
  options: [AMOUNT_OPTION, DATA_DIR_OPTION, CONFIG_OPTION],
  examples: ['tollgate deposits release 01993f8e-5c7b-7e0b-8a35-c1f2d3e4a5b6 --amount 25.00'],
  run: (invocation, context) => decide(invocation, context, { kind: 'credit' }, 'credited'),
}

/** `tollgate deposits reject ID --amount AMOUNT [--note TEXT]` */
export const rejectDepositCommand: Command = {
  words: ['deposits', 'reject'],
  summary: 'Never credit what has come to a deposit and is held by its screening',
  argument: { name: 'ID', summary: 'the deposit, from "tollgate deposits list"' },
  options: [
    AMOUNT_OPTION,
    { name: 'note', value: 'TEXT', summary: 'why; kept, and shown to no customer' },
    DATA_DIR_OPTION,
    CONFIG_OPTION,
  ],
  examples: ['tollgate deposits reject 01993f8e-5c7b-7e0b-8a35-c1f2d3e4a5b6 --amount 25.00 --note "ticket 812"'],
  run: (invocation, context) =>
    decide(
      invocation,
      context,
      { kind: 'reject', reason: noteOf(invocation) ?? 'rejected by the operator' },
      'rejected',
    ),
}

async function decide(
  invocation: Invocation,
  context: CommandContext,
  decision: Parameters<typeof decideHeld>[2],
  done: string,
) {
  const seenUnits = parseUnits(invocation.required('amount'))
  if (seenUnits === null) throw new UsageFailure('--amount must be an amount of tokens such as 25.00')
  return withDeposits(invocation, context, async (settings, database, clock) => {
    const { randomBytes: random } = context
    const id = invocation.argument
    const unknown = () =>
      new CommandFailure(`nothing of the deposit ${id} is held: "tollgate deposits list" shows what is`)
    if (!isUuid(id)) throw unknown()
    const transfers = await decideHeld({ database, clock, random, settings }, id, decision, seenUnits)
    if (transfers === 0) throw unknown()
    if (typeof transfers !== 'number')
      throw new CommandFailure(`of the deposit ${id} ${printUnits(transfers.heldUnits)} is held now: look at it again`)
    return {
      json: { deposit: id, [done]: transfers },
      text: `${transfers === 1 ? '1 transfer' : `${transfers} transfers`} of the deposit ${id} ${transfers === 1 ? 'is' : 'are'} ${done}.\n`,
    }
  })
}

/** `tollgate deposits sweep-plan` */
export const sweepPlanCommand: Command = {
  words: ['deposits', 'sweep-plan'],
  summary: 'Print as CSV what lies at the addresses of deposits now, with the paths of their keys',
  options: [DATA_DIR_OPTION, CONFIG_OPTION],
  examples: ['tollgate deposits sweep-plan'],
  run: (invocation, context) =>
    withDeposits(invocation, context, async (settings, database, clock) => {
      const log = createLog('warn', { write: (line) => (invocation.json ? undefined : context.stderr(line)) })
      const metrics = { rpcFailed: () => {} }
      const { openChains, showAddress } = await import('../payments/deposits/open.ts')
      const chains = openChains(settings, { clock, log, metrics })
      const readers = new Map(chains.map(({ chain, reader }) => [chain, reader]))
      const { rows, missing, failures } = await planSweep(database, readers, showAddress)
      const lines = [SWEEP_COLUMNS, ...rows.map((row) => SWEEP_COLUMNS.map((column) => row[column]))]
      const result = {
        json: { places: rows, missing, failures },
        text: lines.map((line) => `${line.join(',')}\n`).join(''),
      }
      if (missing === 0) return result
      const problem = `the plan lacks ${missing} places whose balance could not be read; run the command again later`
      printProblems(context, invocation.json, { code: 'incomplete', problems: [problem, ...failures] })
      return { ...result, exitCode: EXIT.failed }
    }),
}

/** Opens the database of a server that takes deposits, with their settings. */
export async function withDeposits<T>(
  invocation: Invocation,
  context: CommandContext,
  work: (settings: DepositSettings, database: Database, clock: Clock) => Promise<T>,
): Promise<T> {
  const { deposits } = (await configOf(invocation, context)).settings.fixed
  if (deposits === null) throw new CommandFailure('the settings have no deposits: add the section "deposits"')
  return withDatabase(invocation, context, (database, clock) => work(deposits, database, clock))
}
