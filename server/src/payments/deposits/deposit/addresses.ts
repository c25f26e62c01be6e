/** Where the addresses of new deposits come from. */

import type { Transaction } from '../../../infra/postgres/database.ts'
import type { Deposit } from './deposit.ts'
import { lockDepositor } from './store.ts'

/** The address of a deposit, and where it is from. */
export type DepositAddress = Pick<Deposit, 'address' | 'addressIndex' | 'keyFingerprint'>

/** An address for one new deposit, which nobody else is given meanwhile. */
export interface AddressOffer {
  /** Takes it, in the transaction that makes the deposit. Where it was given out before, another one is taken in the same way. */
  take(tx: Transaction): Promise<DepositAddress>
  /** Has it given to others, where no deposit was made of it. */
  giveBack(): Promise<void>
}

/** The organization that is offered an address. */
export interface AddressClaim {
  readonly organizationId: string
  /** Deposits that it may begin now: no more addresses are kept for it at once. */
  readonly placesLeft: number
}

/** Has what begins deposits of an organization wait for its turn, which lasts until the end of the transaction. */
export async function takeTurnOf(tx: Transaction, { organizationId }: AddressClaim): Promise<void> {
  await lockDepositor(tx, organizationId)
}

/** Gives out addresses of one kind of chain. */
export interface DepositAddresses {
  /** Chooses one before the transaction begins, since nodes may have to be asked. Throws `Refused` where there is none at the moment. */
  offer(claim: AddressClaim): Promise<AddressOffer>
}
