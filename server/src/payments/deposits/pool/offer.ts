import type { DepositChain } from '../../../catalog/depositChain.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { refuse } from '../../../lib/errors.ts'
import { type RandomBytes, randomNumber31, uuidV7 } from '../../../lib/ids.ts'
import type { Log } from '../../../lib/log.ts'
import { type Clock, MINUTE_MS, SECOND_MS, within } from '../../../lib/time.ts'
import { ChainFailure } from '../chains/chain.ts'
import { type AddressClaim, type AddressOffer, type DepositAddresses, takeTurnOf } from '../deposit/addresses.ts'
import { countReserved, endReservation, reserveAddress, restAddress } from './store.ts'

/** Longer than a deposit takes to be made. An address that nodes disagree about rests as long. */
const RESERVED_MS = 5 * MINUTE_MS

/** How long a request waits for what nodes know of an address. */
const HISTORY_MS = 15 * SECOND_MS

/** Addresses that turn out to be used, before a request is given up. */
const USED_MOST = 5

const EMPTY =
  'There is no free address on this chain at the moment. Try again later, or use another chain if there is one.'
const TOO_MANY =
  'This organization is beginning as many deposits as it may have open. Wait for their answers, then try again.'
const AWAY = 'This chain can’t be asked at the moment. Try again in a minute.'

export interface PoolDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  readonly log: Log
}

/** Returns whether an address was ever used on its chain. Throws {@link ChainFailure} where that can't be told. */
export type HasHistory = (address: string) => Promise<boolean>

/**
 * Gives out addresses of the pool of a chain, drawn at random. One that has a history on the chain is never given out: an older backup was
 * restored, or it is used elsewhere. `offer` throws `Refused` where none is free, the nodes can't tell, or the organization has one on offer for
 * each deposit that it may begin: a burst of requests of one would otherwise use up the addresses of all while nodes are slow.
 */
export function createPoolAddresses(
  dependencies: PoolDependencies,
  chain: DepositChain,
  hasHistory: HasHistory,
): DepositAddresses {
  const { database, log } = dependencies
  return {
    async offer(claim) {
      for (let tries = 0; tries < USED_MOST; tries += 1) {
        const reserved = await reserve(dependencies, chain, claim)
        if (reserved === 'too_many') refuse('rate_limited', TOO_MANY, { retryAfterSeconds: 15 })
        if (reserved === null) refuse('payment-source-unavailable', EMPTY, { retryAfterSeconds: 60 })
        const { address, lease } = reserved
        const history = await historyOf(dependencies, address, hasHistory)
        if (history === 'none') return offerOf(dependencies, address, lease)
        if (history === 'unknown') {
          await endReservation(database, address, lease, 'free')
          break
        }
        log.warn(
          { chain, address, history },
          'deposits: an address of the pool is passed over, since it may have a history',
        )
        if (history === 'disputed') await restAddress(database, address, lease)
        if (history === 'some') await endReservation(database, address, lease, 'used')
      }
      return refuse('payment-source-unavailable', AWAY, { retryAfterSeconds: 60 })
    },
  }
}

/** Draws from a random place on; where nothing is behind it, from the beginning. Of one organization one request comes after the other. */
async function reserve({ database, clock, random }: PoolDependencies, chain: DepositChain, claim: AddressClaim) {
  const { organizationId, placesLeft } = claim
  const nowMs = clock.now()
  const lease = uuidV7(nowMs, random)
  const at = { nowMs, untilMs: nowMs + RESERVED_MS }
  const by = { lease, organizationId }
  return database.transaction(async (tx) => {
    await takeTurnOf(tx, claim)
    if ((await countReserved(tx, organizationId, nowMs)) >= placesLeft) return 'too_many'
    const address =
      (await reserveAddress(tx, chain, randomNumber31(random), at, by)) ?? (await reserveAddress(tx, chain, 0, at, by))
    return address === null ? null : { address, lease }
  }, organizationId)
}

async function historyOf({ clock }: PoolDependencies, address: string, hasHistory: HasHistory) {
  try {
    const late = new ChainFailure('away', 'the nodes do not answer in time')
    const found = await within(clock, HISTORY_MS, hasHistory(address), late)
    if (found instanceof ChainFailure) throw found
    return found ? 'some' : 'none'
  } catch (error) {
    if (!(error instanceof ChainFailure)) throw error
    return error.trouble === 'disagree' ? 'disputed' : 'unknown'
  }
}

function offerOf({ database }: PoolDependencies, address: string, lease: string): AddressOffer {
  return {
    async take(tx) {
      // False: the reservation has lapsed, or the operator has replaced the pool.
      if (!(await endReservation(tx, address, lease, 'given')))
        refuse('payment-source-unavailable', AWAY, { retryAfterSeconds: 60 })
      return { address, addressIndex: null, keyFingerprint: null }
    },
    giveBack: async () => void (await endReservation(database, address, lease, 'free')),
  }
}
