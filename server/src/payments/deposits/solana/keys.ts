/** Addresses of Solana: base58 of 32 bytes. Wallets have a point of Ed25519, accounts that programs own have none. */

import { ed25519 } from '@noble/curves/ed25519.js'
import { sha256 } from '@noble/hashes/sha2.js'
import { base58 } from '@scure/base'

/** The program of tokens that USDC and USDT belong to, and the one that says which account of a wallet takes a token. */
export const TOKEN_PROGRAM = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA'
const ASSOCIATED_TOKEN_PROGRAM = 'ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL'

const ADDRESS_BYTES = 32
const PRIVATE_KEY_BYTES = 64
const END_OF_SEEDS = new TextEncoder().encode('ProgramDerivedAddress')

/**
 * Returns what is wrong with the address of a wallet, as a predicate that does not quote it; null where nothing is. Refused are addresses
 * that nobody has a key of, such as those of token accounts, and private keys, which must not be here.
 */
export function faultOfSolanaWallet(text: string): string | null {
  const bytes = decode(text)
  if (bytes?.length === PRIVATE_KEY_BYTES || text.startsWith('['))
    return 'is a private key, which must not be on this server: take its public address'
  if (bytes?.length !== ADDRESS_BYTES) return 'is no address of Solana: it must be base58 of 32 bytes'
  // Keys have a point of the curve's large subgroup: of mistyped addresses fifteen in sixteen have none.
  return hasKey(bytes)
    ? null
    : 'is the address of no wallet: give that of a wallet, not of a token account or a program'
}

/** Returns the address of the account in which a wallet takes a token: the associated one, which depends on both alone. */
export function tokenAccountOf(address: string, mint: string): string {
  const seeds = [address, TOKEN_PROGRAM, mint].map((each) => base58.decode(each))
  const program = base58.decode(ASSOCIATED_TOKEN_PROGRAM)
  for (let bump = 255; bump >= 0; bump -= 1) {
    const account = sha256(Buffer.concat([...seeds, Uint8Array.of(bump), program, END_OF_SEEDS]))
    if (!isOnCurve(account)) return base58.encode(account)
  }
  throw new Error('deposits: a wallet of Solana has no token account')
}

function decode(text: string): Uint8Array | null {
  try {
    return base58.decode(text)
  } catch {
    return null
  }
}

/** As validators have it: also points that are written in an unusual way. */
function isOnCurve(bytes: Uint8Array): boolean {
  try {
    ed25519.Point.fromBytes(bytes, true)
    return true
  } catch {
    return false
  }
}

function hasKey(bytes: Uint8Array): boolean {
  try {
    const point = ed25519.Point.fromBytes(bytes)
    return point.isTorsionFree() && !point.isSmallOrder()
  } catch {
    return false
  }
}
