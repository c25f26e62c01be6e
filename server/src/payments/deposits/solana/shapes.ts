/** The answers of nodes of Solana, as far as they are read. Everything else in an answer is passed over. */

import { z } from 'zod'

const base58Text = (least: number, most: number) =>
  z
    .string()
    .regex(/^[1-9A-HJ-NP-Za-km-z]+$/)
    .min(least)
    .max(most)

const address = base58Text(32, 44)
const signature = base58Text(64, 88)

export const slotNumber = z.int().nonnegative()

export const hashText = base58Text(32, 44)

export const latestBlock = z.object({
  context: z.object({ slot: slotNumber }),
  value: z.object({ blockhash: hashText }),
})

export const blockOfSlot = z.object({ blockhash: hashText })

/** Null: it succeeded. */
const failure = z.union([z.null(), z.string(), z.looseObject({})])

/** The most that nodes list at once. */
export const SIGNATURES_AT_ONCE = 1_000

export const signatures = z
  .array(
    z.object({
      signature,
      slot: slotNumber,
      err: failure,
      confirmationStatus: z.string().nullish(),
    }),
  )
  .max(SIGNATURES_AT_ONCE)

/** Accounts of a transaction, which it names by one byte. A node that tells of more would take long to be read. */
const ACCOUNTS_MOST = 256

const tokenBalance = z.object({
  accountIndex: z
    .int()
    .nonnegative()
    .max(ACCOUNTS_MOST - 1),
  mint: address,
  owner: address.nullish(),
  uiTokenAmount: z.object({
    amount: z
      .string()
      .regex(/^\d{1,20}$/)
      .transform(BigInt),
  }),
})

export type TokenBalance = z.infer<typeof tokenBalance>

/** An account has one balance of tokens before a transaction, and one after it. */
const tokenBalances = z
  .array(tokenBalance)
  .max(ACCOUNTS_MOST)
  .refine((balances) => new Set(balances.map(({ accountIndex }) => accountIndex)).size === balances.length)

const addresses = z.array(address).max(ACCOUNTS_MOST)

export const transaction = z.object({
  slot: slotNumber,
  transaction: z.object({
    signatures: z.array(signature).min(1).max(ACCOUNTS_MOST),
    message: z.object({ accountKeys: addresses.min(1) }),
  }),
  meta: z.object({
    err: failure,
    preTokenBalances: tokenBalances,
    postTokenBalances: tokenBalances,
    loadedAddresses: z.object({ writable: addresses, readonly: addresses }).nullish(),
  }),
})

export type SolanaTransaction = z.infer<typeof transaction>

/** Of some accounts, whether each is there, in the order of the question; their data are not asked for. */
export const accounts = z
  .object({ value: z.array(z.unknown()).max(ACCOUNTS_MOST) })
  .transform(({ value }) => value.map((each) => each !== null))

/** Null: there is no such account. */
export const account = z.object({
  value: z
    .object({
      owner: address,
      data: z.tuple([z.base64(), z.literal('base64')]).transform(([text]) => Buffer.from(text, 'base64')),
    })
    .nullable(),
})
