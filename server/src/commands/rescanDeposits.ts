import { DEPOSIT_CHAINS, type DepositChain } from '../catalog/depositChain.ts'
import type { DepositSettings } from '../catalog/settings.ts'
import { createLog } from '../infra/log.ts'
import type { Database } from '../infra/postgres/database.ts'
import type { Clock } from '../lib/time.ts'
import { ChainFailure, type ChainReader } from '../payments/deposits/chains/chain.ts'
import { firstBlockAfter, rescanChain, skipBlocks } from '../payments/deposits/watch/rescan.ts'
import {
  CONFIG_OPTION,
  type Command,
  CommandFailure,
  DATA_DIR_OPTION,
  type Invocation,
  UsageFailure,
} from './command.ts'
import type { CommandContext } from './context.ts'
import { withDeposits } from './deposits.ts'

/** `tollgate deposits rescan --chain CHAIN (--from-block N | --skip-to N --confirm N)` */
export const rescanDepositsCommand: Command = {
  words: ['deposits', 'rescan'],
  summary: 'Have a chain read again from a block on, for every address ever given out; nothing is credited twice',
  options: [
    { name: 'chain', value: 'CHAIN', summary: DEPOSIT_CHAINS.join(', '), required: true },
    { name: 'from-block', value: 'N', summary: 'the first block; on Solana the first slot' },
    {
      name: 'skip-to',
      value: 'N',
      summary:
        'instead, skip unread blocks before this one that no node has any more; payments in them are not credited',
    },
    { name: 'confirm', value: 'N', summary: 'the number of --skip-to once more' },
    DATA_DIR_OPTION,
    CONFIG_OPTION,
  ],
  examples: [
    'tollgate deposits rescan --chain ethereum --from-block 23000000',
    'tollgate deposits rescan --chain solana --skip-to 380000000 --confirm 380000000',
  ],
  run: (invocation, context) => {
    const chain = chainOf(invocation)
    const [fromBlock, skipTo] = [blockOf(invocation, 'from-block'), blockOf(invocation, 'skip-to')]
    if ((fromBlock === null) === (skipTo === null)) throw new UsageFailure('give either --from-block or --skip-to')
    if (skipTo !== null && blockOf(invocation, 'confirm') !== skipTo)
      throw new UsageFailure(
        `what came before block ${skipTo} and was not read is not credited: add --confirm ${skipTo}`,
      )
    return withDeposits(invocation, context, async (settings, database, clock) => {
      const means = { invocation, context, clock }
      const reader = await readerOf(settings, chain, means)
      try {
        if (fromBlock !== null) return await rescan(database, clock, { chain, reader, fromBlock })
        return await skip(database, clock, { chain, reader, toBlock: skipTo ?? 0 })
      } catch (error) {
        if (error instanceof ChainFailure)
          throw new CommandFailure(`${error.message}; nothing is changed: try again when the nodes answer`)
        throw error
      }
    })
  },
}

interface Asked {
  readonly chain: DepositChain
  /** Null: the settings do not have the chain. */
  readonly reader: ChainReader | null
}

async function rescan(
  database: Database,
  clock: Clock,
  { chain, reader, fromBlock }: Asked & { readonly fromBlock: number },
) {
  const first = reader === null ? null : await firstBlockAfter(reader, fromBlock)
  if (first !== null)
    throw new CommandFailure(
      `the nodes of ${chain} do not keep what is before block ${first}: give --from-block ${first}, or name nodes that keep more`,
    )
  const behind = await rescanChain(database, chain, fromBlock, clock.now())
  if (behind === null) throw new CommandFailure(`${chain} was never watched: start the server with it in the settings`)
  const text = `The server reads ${chain} from block ${behind + 1} on, as soon as it runs.\n`
  return { json: { chain, from_block: behind + 1 }, text }
}

async function skip(
  database: Database,
  clock: Clock,
  { chain, reader, toBlock }: Asked & { readonly toBlock: number },
) {
  if (reader === null) throw new CommandFailure(`the settings have no ${chain}: add it to "deposits.chains"`)
  const skipped = await skipBlocks(database, { chain, reader }, toBlock, clock.now())
  if (skipped.kind === 'not_final')
    throw new CommandFailure(
      `block ${toBlock} of ${chain} is not final: give --skip-to ${skipped.finalBlock} or a block before it`,
    )
  if (skipped.kind === 'nothing')
    throw new CommandFailure(
      `there is nothing to skip: ${chain} is read from block ${toBlock} on, or was never watched`,
    )
  const text = `The server goes on with block ${toBlock} of ${chain}. What came in the blocks ${skipped.from} to ${skipped.to} and was not read is not credited.\nRead them with --from-block ${skipped.from} once you have nodes that keep them.\n`
  return { json: { chain, skipped_from: skipped.from, skipped_to: skipped.to }, text }
}

async function readerOf(
  settings: DepositSettings,
  chain: DepositChain,
  { invocation, context, clock }: { invocation: Invocation; context: CommandContext; clock: Clock },
): Promise<ChainReader | null> {
  const log = createLog('warn', { write: (line) => (invocation.json ? undefined : context.stderr(line)) })
  const { openChains } = await import('../payments/deposits/open.ts')
  const opened = openChains(settings, { clock, log, metrics: { rpcFailed: () => {} } })
  return opened.find((each) => each.chain === chain)?.reader ?? null
}

function chainOf(invocation: Invocation): DepositChain {
  const typed = invocation.required('chain')
  const chain = DEPOSIT_CHAINS.find((each) => each === typed)
  if (chain !== undefined) return chain
  throw new UsageFailure(`--chain "${typed}" is not known: use one of ${DEPOSIT_CHAINS.join(', ')}`)
}

/** Null: it is not given. */
function blockOf(invocation: Invocation, option: string): number | null {
  const typed = invocation.text(option)
  if (typed === undefined) return null
  if (/^\d{1,12}$/.test(typed)) return Number(typed)
  throw new UsageFailure(`--${option} "${typed}" is not the number of a block`)
}
