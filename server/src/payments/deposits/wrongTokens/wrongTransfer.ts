import type { ChainTransfer } from '../chains/chain.ts'

/** A transfer to a deposit of a token that it did not ask for. */
export interface WrongTransfer extends ChainTransfer {
  readonly depositId: string
}
