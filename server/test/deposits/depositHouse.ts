/** Deposits with a real chain and real PostgreSQL; time stands still. */

import {
  type DepositAsset,
  type DepositChain,
  type DepositChainSettings,
  isEvmChain,
  type TokenContracts,
} from '../../src/catalog/depositChain.ts'
import type { DepositSettings } from '../../src/catalog/settings.ts'
import { systemClock } from '../../src/infra/clock.ts'
import { systemFetch } from '../../src/infra/fetch.ts'
import { createLog } from '../../src/infra/log.ts'
import type { Database } from '../../src/infra/postgres/database.ts'
import { systemRandom } from '../../src/infra/random.ts'
import { Secret } from '../../src/lib/secret.ts'
import { HOUR_MS } from '../../src/lib/time.ts'
import type { ChainReader } from '../../src/payments/deposits/chains/chain.ts'
import { createDeposit } from '../../src/payments/deposits/deposit/create.ts'
import type { Deposit, FoundDeposit } from '../../src/payments/deposits/deposit/deposit.ts'
import { findDeposit } from '../../src/payments/deposits/deposit/find.ts'
import { createEvmAddresses, createEvmOffers } from '../../src/payments/deposits/evm/addresses.ts'
import { createEvmReader } from '../../src/payments/deposits/evm/reader.ts'
import { importAddresses, type PoolImport } from '../../src/payments/deposits/pool/import.ts'
import { createPoolAddresses, type HasHistory, type PoolDependencies } from '../../src/payments/deposits/pool/offer.ts'
import type { AskHook } from '../../src/payments/deposits/screening/hook.ts'
import { screenTransfer } from '../../src/payments/deposits/screening/screen.ts'
import { faultOfSolanaWallet } from '../../src/payments/deposits/solana/keys.ts'
import { createSolanaReader } from '../../src/payments/deposits/solana/reader.ts'
import { claimTransfers } from '../../src/payments/deposits/transfers/decide.ts'
import { createStepLength } from '../../src/payments/deposits/watch/stepLength.ts'
import { insertChains } from '../../src/payments/deposits/watch/store.ts'
import { type Looked, watchChain } from '../../src/payments/deposits/watch/watch.ts'
import { TurnedClock } from '../clock.ts'
import { makeCustomer } from '../customer.ts'
import { freshDatabase } from '../postgres.ts'
import type { FakeChain } from './fakeChain.ts'

/** Of the account m/44'/60'/0' of the mnemonic that anvil and others begin with: `test test test … junk`. */
export const TEST_XPUB =
  'xpub6Ce9NcJvTk36xtLSrJLZqE7wtgA5deCeYs7rSQtreh4cj6ByPtrg9sD7V2FNFLPnf8heNP3FGkeV9qwfzvZNSd54JoNXVsXFYSYwHsnJxqP'

const BLOCK_RANGE = 1_000

export interface HouseOptions {
  readonly chain: DepositChain
  readonly nodes: readonly string[]
  readonly tokens: TokenContracts
  /** Stands in for the nodes. */
  readonly reader?: ChainReader
}

export interface DepositHouse {
  readonly clock: TurnedClock
  readonly database: Database
  readonly logs: string[]
  readonly settings: DepositSettings
  readonly reader: ChainReader
  hook: AskHook
  /** The dependencies that the room calls its verbs with. */
  dependencies(): Parameters<typeof screenTransfer>[0] & Parameters<typeof watchChain>[0]
  customer(options?: { readonly standing?: 'new' }): Promise<string>
  create(organizationId: string, amountCents: number, asset?: DepositAsset): Promise<Deposit>
  /** Imports addresses into the pool of the chain. */
  importAddresses(addresses: readonly string[], replaces?: boolean): Promise<PoolImport>
  find(id: string): Promise<FoundDeposit>
  /** Looks at the chain until nothing is left to settle, and screens what is due. */
  look(): Promise<void>
  watch(reader?: ChainReader): Promise<Looked>
  screen(): Promise<void>
  /** The credit of an organization by deposits, an entry each, in micro-cents and in the order of their sources. */
  credits(organizationId: string): Promise<bigint[]>
  close(): Promise<void>
}

/** Opens one. Call `close` in `afterAll`. */
export async function openDepositHouse(options: HouseOptions): Promise<DepositHouse> {
  const { chain } = options
  const { database, drop } = await freshDatabase()
  const clock = new TurnedClock(systemClock.now())
  const random = systemRandom()
  const logs: string[] = []
  const log = createLog('debug', { write: (line) => void logs.push(line) })
  const { settings, chainSettings } = testSettings(options)
  const { addresses, hasHistory, ...made } = openTestReader(chainSettings, { database, clock, random, log })
  const reader = options.reader ?? made.reader
  await insertChains(database, [chain], clock.now())
  const step = createStepLength(BLOCK_RANGE)
  const house: DepositHouse = {
    clock,
    database,
    logs,
    settings,
    reader,
    hook: async () => ({ verdict: 'pass' }),
    dependencies: () => ({ database, clock, random, settings, log, askHook: (transfer) => house.hook(transfer) }),
    customer: async (customer) => (await makeCustomer(database, { cents: 0, ...customer }, clock)).organizationId,
    create: (organizationId, amountCents, asset = 'usdc') =>
      createDeposit(
        { database, clock, random, addressesOf: () => addresses, settings, isAvailable: async () => true },
        { organizationId, chain, asset, amountCents, keep: async () => [] },
      ),
    importAddresses: (wallets, replaces = false) =>
      importAddresses({ database, clock, random, faultOf: faultOfSolanaWallet, hasHistory }, chain, {
        text: wallets.join('\n'),
        replaces,
      }),
    async find(id) {
      const found = await findDeposit(database, null, id)
      if (found === null) throw new Error(`there is no deposit ${id}`)
      return found
    },
    watch: (by = reader) =>
      watchChain(
        { database, clock, settings },
        { chain, blockRange: BLOCK_RANGE, reader: by, step },
        new AbortController().signal,
      ),
    async screen() {
      for (;;) {
        const claimed = await claimTransfers(house.dependencies(), clock.now() + 60_000, 10)
        for (const transfer of claimed) await screenTransfer(house.dependencies(), transfer)
        if (claimed.length === 0) return
      }
    },
    async look() {
      while ((await house.watch()).isBehind);
      await house.screen()
    },
    async credits(organizationId) {
      const rows = await database.query<{ amount: bigint }>(
        `select amount_microcents as amount from ledger_entries
         where organization_id = $1::uuid and source like 'deposit:%' order by source`,
        [organizationId],
      )
      return rows.map(({ amount }) => amount)
    },
    close: drop,
  }
  return house
}

/** Makes a deposit of $5 for a new customer and pays it, final on a chain in memory. The house has not looked at the chain since. */
export async function paidDeposit(
  house: DepositHouse,
  chain: FakeChain,
): Promise<{ readonly id: string; readonly organizationId: string }> {
  const organizationId = await house.customer()
  const { id, address } = await house.create(organizationId, 500)
  chain.pay(address, 5_000_000n)
  chain.mine()
  chain.finalize()
  return { id, organizationId }
}

function testSettings({ chain, nodes, tokens }: HouseOptions) {
  const rpcUrls = nodes.map((url) => new Secret(url))
  const poolWarnBelow = isEvmChain(chain) ? null : 3
  const chainSettings = { chain, rpcUrls, tokens, pollMs: 1_000, blockRange: BLOCK_RANGE, poolWarnBelow }
  const settings: DepositSettings = {
    xpub: TEST_XPUB,
    minDepositCents: 500,
    minTransferCents: 100,
    openMost: 10,
    perDayMost: 100,
    expiresMs: 24 * HOUR_MS,
    screening: null,
    chains: [chainSettings],
  }
  return { settings, chainSettings }
}

/** Opens the reader of a chain, and what its addresses are from. */
function openTestReader(settings: DepositChainSettings, machine: PoolDependencies) {
  const { chain } = settings
  const options = { clock: machine.clock, send: systemFetch, onError: () => {} }
  if (isEvmChain(chain)) {
    const hasHistory: HasHistory = async () => false
    const addresses = createEvmOffers(createEvmAddresses(TEST_XPUB), machine.random)
    const reader: ChainReader = createEvmReader({ ...options, settings: { ...settings, chain }, log: machine.log })
    return { reader, addresses, hasHistory }
  }
  const reader = createSolanaReader({ ...options, settings })
  const { hasHistory } = reader
  return { reader, addresses: createPoolAddresses(machine, chain, hasHistory), hasHistory }
}
