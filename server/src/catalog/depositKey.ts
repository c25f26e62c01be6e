/** Keys and addresses of chains, as they are written down: what a checksum, or their length, tells of a mistyped one. */

import { sha256 } from '@noble/hashes/sha2.js'
import { base58, createBase58check } from '@scure/base'

/** The first bytes of an extended public key, which make it begin with `xpub`. */
const XPUB_VERSION = 0x0488b21e
const XPUB_BYTES = 78
const DEPTH_BYTE = 4
/** Of an account, m/44'/60'/0'. Beneath another key a wallet would look for the addresses in another place. */
const ACCOUNT_DEPTH = 3

const MINT_BYTES = 32

/** Returns what is wrong with the extended public key of an account, as a predicate that does not quote it; null where nothing is. */
export function faultOfXpub(text: string): string | null {
  const bytes = decode(text)
  if (bytes?.length !== XPUB_BYTES || new DataView(bytes.buffer, bytes.byteOffset).getUint32(0) !== XPUB_VERSION)
    return 'is mistyped, as its checksum tells: copy it once more from your wallet'
  const depth = bytes[DEPTH_BYTE]
  return depth === ACCOUNT_DEPTH
    ? null
    : `is of depth ${depth}, not ${ACCOUNT_DEPTH}: give that of an account, m/44'/60'/0', whose addresses are m/44'/60'/0'/0/<index>`
}

/** Returns whether a text is an address of Solana. */
export function isSolanaAddress(text: string): boolean {
  try {
    return base58.decode(text).length === MINT_BYTES
  } catch {
    return false
  }
}

function decode(text: string): Uint8Array | null {
  try {
    return createBase58check(sha256).decode(text)
  } catch {
    return null
  }
}
