import { readFile, stat } from 'node:fs/promises'
import { createLog } from '../infra/log.ts'
import { ChainFailure } from '../payments/deposits/chains/chain.ts'
import { CONFIG_OPTION, type Command, CommandFailure, DATA_DIR_OPTION } from './command.ts'
import { withDeposits } from './deposits.ts'

/** Of the file: more than all addresses that one import takes. */
const FILE_BYTES_MOST = 1024 * 1024

/** The chain whose addresses come from a pool. */
const CHAIN = 'solana'

/** `tollgate deposits import FILE [--replace]` */
export const importDepositAddressesCommand: Command = {
  words: ['deposits', 'import'],
  summary:
    'Import addresses of Solana for deposits to come, made by your wallet; those with a history on the chain are skipped',
  argument: { name: 'FILE', summary: 'the addresses of wallets, one a line; no private keys' },
  options: [
    { name: 'replace', value: null, summary: 'never give out those that are free now, as after a restored backup' },
    DATA_DIR_OPTION,
    CONFIG_OPTION,
  ],
  examples: ['tollgate deposits import addresses.txt'],
  run: (invocation, context) =>
    withDeposits(invocation, context, async (settings, database, clock) => {
      const text = await readAddresses(invocation.argument)
      const log = createLog('warn', { write: (line) => (invocation.json ? undefined : context.stderr(line)) })
      const { openChains } = await import('../payments/deposits/open.ts')
      const { importAddresses } = await import('../payments/deposits/pool/import.ts')
      const { faultOfSolanaWallet } = await import('../payments/deposits/solana/keys.ts')
      const opened = openChains(settings, { clock, log, metrics: { rpcFailed: () => {} } })
      const chain = opened.find((each) => each.chain === CHAIN)
      if (chain === undefined || chain.hasHistory === null)
        throw new CommandFailure(`the settings have no ${CHAIN}: add it to "deposits.chains"`)
      const { reader, hasHistory } = chain
      const dependencies = { database, clock, random: context.randomBytes, hasHistory }
      const faultOf = (address: string) => faultOfSolanaWallet(address)
      const replaces = invocation.flag('replace')
      try {
        await reader.check()
        const done = await importAddresses({ ...dependencies, faultOf }, CHAIN, { text, replaces })
        if (!done.ok) throw new CommandFailure(...done.problems)
        const { imported, skipped, retired, free } = done
        const lines = [
          `Addresses imported: ${imported}; free: ${free}.`,
          ...(retired > 0 ? [`${retired} that were free before are never given out.`] : []),
          ...skipped.map((address) => `skipped: ${address} has a history on the chain`),
        ]
        return { json: { imported, skipped, retired, free }, text: lines.map((line) => `${line}\n`).join('') }
      } catch (error) {
        if (error instanceof ChainFailure)
          throw new CommandFailure(`${error.message}; nothing is imported: try again when the nodes agree`)
        throw error
      }
    }),
}

async function readAddresses(file: string): Promise<string> {
  try {
    if ((await stat(file)).size > FILE_BYTES_MOST) throw new CommandFailure(`${file} is too large: split it`)
    return await readFile(file, 'utf8')
  } catch (error) {
    if (error instanceof CommandFailure) throw error
    throw new CommandFailure(`${file} can’t be read: give the name of a file that you may read`)
  }
}
