/** One history of deposits, made by a seed: what may happen, in any order, and what must be true at any time and at its end. */

import type { DepositChain } from '../../src/catalog/depositChain.ts'
import type { Database } from '../../src/infra/postgres/database.ts'
import { Refused } from '../../src/lib/errors.ts'
import type { RandomBytes } from '../../src/lib/ids.ts'
import type { Log } from '../../src/lib/log.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/lib/time.ts'
import { ChainFailure } from '../../src/payments/deposits/chains/chain.ts'
import type { DepositAddresses } from '../../src/payments/deposits/deposit/addresses.ts'
import { createDeposit } from '../../src/payments/deposits/deposit/create.ts'
import type { Deposit } from '../../src/payments/deposits/deposit/deposit.ts'
import { createEvmAddresses, createEvmOffers } from '../../src/payments/deposits/evm/addresses.ts'
import { importAddresses } from '../../src/payments/deposits/pool/import.ts'
import { createPoolAddresses } from '../../src/payments/deposits/pool/offer.ts'
import type { HookVerdict } from '../../src/payments/deposits/screening/hook.ts'
import { screenTransfer } from '../../src/payments/deposits/screening/screen.ts'
import { claimTransfers, decideHeld } from '../../src/payments/deposits/transfers/decide.ts'
import { sourceOf, type TransferKey } from '../../src/payments/deposits/transfers/transfer.ts'
import { rescanChain } from '../../src/payments/deposits/watch/rescan.ts'
import { createStepLength } from '../../src/payments/deposits/watch/stepLength.ts'
import { insertChains } from '../../src/payments/deposits/watch/store.ts'
import { watchChain } from '../../src/payments/deposits/watch/watch.ts'
import type { TurnedClock } from '../clock.ts'
import { makeCustomer } from '../customer.ts'
import { type Seeded, seeded } from '../faults/seeded.ts'
import { checkAlways, checkEnd } from './checkHistory.ts'
import { TEST_XPUB } from './depositHouse.ts'
import { FakeChain } from './fakeChain.ts'
import { Killed, type Trouble, troubledDatabase } from './troubledDatabase.ts'

const STEPS_LEAST = 12
const STEPS_MOST = 40
/** Less than addresses are watched for, so that everything that comes is found without a rescan. */
const DAYS_MOST = 20
const NO_TROUBLE = Number.POSITIVE_INFINITY
const SETTINGS = { minDepositCents: 500, minTransferCents: 100, openMost: 10, perDayMost: 100, expiresMs: 24 * HOUR_MS }
const evmAddresses = createEvmAddresses(TEST_XPUB)

export interface HistoryMachine {
  readonly database: Database
  readonly clock: TurnedClock
  readonly random: RandomBytes
  readonly log: Log
}

/** Everything of one history. */
export interface History extends HistoryMachine {
  readonly choose: Seeded
  readonly chain: FakeChain
  readonly organizationId: string
  readonly deposits: Deposit[]
  /** Sources of transfers that the hook or the operator has refused. */
  readonly rejected: Set<string>
  readonly trace: string[]
  /** Addresses of the chain's deposits that were seen, and those of them that something was sent to before. */
  readonly given: Set<string>
  readonly misgiven: Set<string>
  /** Addresses that the operator has imported, or tried to. */
  readonly imported: string[]
  readonly begunAtMs: number
  /** Once over, nothing fails any more. */
  isCalm: boolean
}

/** Runs a history; returns what was wrong, and what happened. */
export async function runDepositHistory(seed: number, machine: HistoryMachine) {
  const history = await openHistory(seed, machine)
  const problems: string[] = []
  const steps = history.choose.between(STEPS_LEAST, STEPS_MOST)
  for (let step = 0; step < steps && problems.length === 0; step += 1) {
    await act(history)
    problems.push(...(await checkAlways(history)))
  }
  if (problems.length === 0) {
    await comeToRest(history)
    problems.push(...(await checkEnd(history)))
  }
  return { problems, trace: history.trace }
}

async function openHistory(seed: number, machine: HistoryMachine): Promise<History> {
  const choose = seeded(seed)
  // A chain of its own, so that many histories share a database.
  const name = `history-${seed}-${machine.clock.now()}` as DepositChain
  const chain = new FakeChain(name, choose.percent(40))
  await insertChains(machine.database, [chain.name], machine.clock.now())
  const { organizationId } = await makeCustomer(machine.database, { cents: 0 }, machine.clock)
  const parts = {
    choose,
    chain,
    organizationId,
    deposits: [],
    rejected: new Set<string>(),
    trace: [],
    given: new Set<string>(),
    misgiven: new Set<string>(),
    imported: [],
    isCalm: true,
    begunAtMs: machine.clock.now(),
  }
  const history: History = { ...machine, ...parts }
  // No deposit begins before the first look has ended.
  await watch(history, NO_TROUBLE)
  await importMore(history)
  history.isCalm = false
  return history
}

type Act = (history: History) => void | Promise<void>

/** The acts of a history, each as often as it stands here. */
const ACTS: readonly [readonly [string, Act], ...(readonly [string, Act])[]] = [
  ['creates', create],
  ['pays', pay],
  ['pays', pay],
  ['pays', pay],
  ['mines', ({ chain, choose }) => chain.mine(() => choose.percent(80))],
  ['mines', ({ chain, choose }) => chain.mine(() => choose.percent(80))],
  ['reorganizes', ({ chain, choose }) => chain.reorganize(choose.between(1, 4), () => choose.percent(20))],
  ['finalizes', ({ chain, choose }) => chain.finalize(choose.between(0, 3))],
  ['watches', (history) => watch(history, troubleOf(history))],
  ['watches', (history) => watch(history, troubleOf(history))],
  ['watches twice at once', watchTwice],
  ['screens', (history) => screen(history, troubleOf(history))],
  ['screens', (history) => screen(history, troubleOf(history))],
  ['screens twice at once', screenTwice],
  ['decides', decide],
  ['waits', ({ clock, choose }) => clock.turn(choose.between(1, 90) * MINUTE_MS)],
  ['waits for days', waitDays],
  ['rescans', rescan],
  ['imports', importMore],
]

async function act(history: History): Promise<void> {
  const [name, what] = history.choose.pick(ACTS)
  history.trace.push(name)
  await what(history)
}

async function create(history: History): Promise<void> {
  const { clock, random, chain, choose, organizationId, deposits } = history
  if (deposits.length >= 4) return
  const database = dressed(history, troubleOf(history))
  const addressesOf = () => addressesFor(history, database)
  const amountCents = choose.between(500, 1_000)
  await inProcess(history, async () => {
    const deposit = await createDeposit(
      { database, clock, random, addressesOf, settings: SETTINGS, isAvailable: async () => true },
      { organizationId, chain: chain.name, asset: 'usdc', amountCents, keep: async () => [] },
    )
    deposits.push(deposit)
  })
  await noteGiven(history)
}

/** Looks at which addresses are given out now, also to a deposit whose process died: nothing was ever sent to them. */
async function noteGiven({ database, chain, given, misgiven }: History): Promise<void> {
  const sql = 'select address from deposits where chain = $1'
  for (const { address } of await database.query<{ address: string }>(sql, [chain.name])) {
    if (!given.has(address) && chain.wasSentTo(address)) misgiven.add(address)
    given.add(address)
  }
}

function addressesFor({ chain, clock, random, log }: History, database: Database): DepositAddresses {
  return chain.isFinalOnly
    ? createPoolAddresses({ database, clock, random, log }, chain.name, (address) => chain.hasHistory(address))
    : createEvmOffers(evmAddresses, random)
}

/** The operator imports some addresses, to which somebody has sent something before or after, and which may be known by now. */
async function importMore(history: History): Promise<void> {
  const { clock, random, chain, choose, imported } = history
  if (!chain.isFinalOnly) return
  const fresh = Array.from({ length: choose.between(1, 4) }, (_, index) => `${chain.name}-${imported.length + index}`)
  const [repeated] = imported
  const addresses = repeated !== undefined && choose.percent(20) ? [...fresh, repeated] : fresh
  const spoil = () => {
    const address = choose.pick(fresh as [string, ...string[]])
    chain.pay(address, 1_000_000n)
  }
  if (choose.percent(30)) spoil()
  const text = addresses.join('\n')
  imported.push(...fresh)
  const database = dressed(history, troubleOf(history))
  const dependencies = {
    database,
    clock,
    random,
    faultOf: () => null,
    hasHistory: (each: string) => chain.hasHistory(each),
  }
  await inProcess(history, async () => {
    await importAddresses(dependencies, chain.name, { text, replaces: choose.percent(20) })
  })
  if (choose.percent(30)) spoil()
}

/** Of less than is screened by itself. */
const SMALL = 700_000n

function pay({ chain, choose, deposits }: History): void {
  const [first, ...others] = deposits
  if (first === undefined) return
  const { address, amountCents } = choose.pick([first, ...others])
  const asked = BigInt(amountCents) * 10_000n
  const third = asked / 3n
  chain.pay(
    address,
    ...choose.pick([
      [asked],
      [asked],
      [asked - 1n],
      [asked - SMALL],
      [asked - SMALL, SMALL],
      [SMALL],
      [1n],
      [asked + 1n],
      [third, third, asked - 2n * third],
      [{ units: asked, asset: null }],
      [{ units: asked, asset: 'usdt' as const }, asked],
    ]),
  )
}

/** After how many statements a process dies; mostly it does not. */
function troubleOf({ choose }: History): number {
  return choose.percent(35) ? choose.between(1, 25) : NO_TROUBLE
}

function dressed({ database, choose }: History, remaining: number): Database {
  const trouble: Trouble = { remaining, isAnswerLost: remaining !== NO_TROUBLE && choose.percent(50) }
  return remaining === NO_TROUBLE ? database : troubledDatabase(database, trouble)
}

/** Runs what a process does; its death is no error of it. */
async function inProcess(history: History, work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (error) {
    const isExpected = error instanceof Killed || error instanceof ChainFailure || error instanceof Refused
    if (!isExpected) throw error
    history.trace.push(error.message)
  }
}

/** A look of a process, during which the chain may be reorganized or away. */
async function watch(history: History, remaining: number): Promise<void> {
  const { chain, clock, choose, isCalm } = history
  const database = dressed(history, remaining)
  chain.onAsked = () => {
    if (isCalm) return
    if (choose.percent(3)) throw new ChainFailure('away', 'away')
    if (choose.percent(5)) chain.reorganize(choose.between(1, 2), () => choose.percent(20))
    if (choose.percent(10)) chain.mine()
    if (choose.percent(5)) chain.finalize(choose.between(0, 2))
  }
  const blockRange = choose.between(1, 5)
  const watched = { chain: chain.name, blockRange, reader: chain, step: createStepLength(blockRange) }
  await inProcess(history, async () => {
    await watchChain({ database, clock, settings: SETTINGS }, watched, new AbortController().signal)
  })
}

async function watchTwice(history: History): Promise<void> {
  await Promise.all([watch(history, troubleOf(history)), watch(history, troubleOf(history))])
}

async function screen(history: History, remaining: number): Promise<void> {
  const database = dressed(history, remaining)
  const { clock, random, log, choose } = history
  const askHook = async (transfer: TransferKey): Promise<HookVerdict> => {
    const verdict = history.isCalm
      ? 'pass'
      : choose.pick(['pass', 'pass', 'pass', 'reject', 'hold', 'unknown'] as const)
    if (verdict === 'reject') history.rejected.add(sourceOf(transfer))
    // Said once and for all: a hook does not change its mind about what it has rejected.
    if (history.rejected.has(sourceOf(transfer))) return { verdict: 'reject', reason: 'seed' }
    if (verdict === 'pass') return { verdict }
    return verdict === 'hold' ? { verdict, reason: 'seed' } : { verdict: 'unknown' }
  }
  const dependencies = { database, clock, random, log, settings: SETTINGS, askHook }
  await inProcess(history, async () => {
    const claimed = await claimTransfers(dependencies, clock.now() + MINUTE_MS, 5)
    for (const transfer of claimed) await screenTransfer(dependencies, transfer)
  })
}

async function screenTwice(history: History): Promise<void> {
  await Promise.all([screen(history, troubleOf(history)), screen(history, troubleOf(history))])
}

/** The operator decides about what is held, or about what another process decides at the same time. */
async function decide(history: History): Promise<void> {
  const { database, clock, random, choose, deposits } = history
  for (const { id } of deposits) {
    const dependencies = { database, clock, random, settings: SETTINGS }
    if (choose.percent(70)) await decideHeld(dependencies, id, { kind: 'credit' })
  }
}

async function waitDays({ clock, choose, begunAtMs }: History): Promise<void> {
  const hours = choose.between(1, 12) * 6
  if (clock.now() + hours * HOUR_MS < begunAtMs + DAYS_MOST * DAY_MS) await clock.turn(hours * HOUR_MS)
}

async function rescan({ database, clock, chain, choose }: History): Promise<void> {
  await rescanChain(database, chain.name, choose.between(0, chain.headNumber + 1), clock.now())
}

/** Nothing fails any more: all that is in a block becomes final, and is screened until nothing waits. */
async function comeToRest(history: History): Promise<void> {
  const { chain, clock } = history
  history.isCalm = true
  chain.mine()
  chain.finalize()
  // Work that died with its claim is claimed again when that is over; a held transfer, within the hour.
  for (let hours = 0; hours < 3; hours += 1) {
    for (let looks = 0; looks < 2; looks += 1) await watch(history, NO_TROUBLE)
    for (let screenings = 0; screenings < 4; screenings += 1) await screen(history, NO_TROUBLE)
    await clock.turn(HOUR_MS)
  }
  await clock.turn(2 * DAY_MS)
  await watch(history, NO_TROUBLE)
}
