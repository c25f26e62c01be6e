import { secp256k1 } from '@noble/curves/secp256k1.js'
import { keccak_256 } from '@noble/hashes/sha3.js'
import { HDKey } from '@scure/bip32'
import { type RandomBytes, randomNumber31, toHex } from '../../../lib/ids.ts'
import type { DepositAddresses } from '../deposit/addresses.ts'

/** Of addresses that are given out, beneath the account's key: the branch that wallets call external. */
const BRANCH = 0

/** Of an account, m/44'/60'/0'. Beneath another key a wallet would look for the addresses in another place. */
const ACCOUNT_DEPTH = 3

/** Makes addresses from an extended public key. */
export interface EvmAddresses {
  /** Names the extended public key without telling it. */
  readonly fingerprint: string
  /** The address of an index from 0 to 2^31 - 1, in lower case. */
  at(index: number): string
}

/**
 * Makes addresses from an extended public key: m/0/<index>, as wallets count those of an account. Throws where it is none, or holds a
 * private key, which must not be here.
 */
export function createEvmAddresses(xpub: string): EvmAddresses {
  const account = readKey(xpub)
  const branch = account.deriveChild(BRANCH)
  return {
    fingerprint: account.fingerprint.toString(16).padStart(8, '0'),
    at(index) {
      const { publicKey } = branch.deriveChild(index)
      if (publicKey === null) throw new Error('deposits: the extended public key gives no key')
      return addressOf(publicKey)
    },
  }
}

/** Gives out addresses at random indexes: not counted up, so that a restored backup gives no address that was given before. */
export function createEvmOffers({ at, fingerprint }: EvmAddresses, random: RandomBytes): DepositAddresses {
  const offer = {
    take: async () => {
      const addressIndex = randomNumber31(random)
      return { address: at(addressIndex), addressIndex, keyFingerprint: fingerprint }
    },
    giveBack: async () => {},
  }
  return { offer: async () => offer }
}

function readKey(xpub: string): HDKey {
  let key: HDKey
  try {
    key = HDKey.fromExtendedKey(xpub)
  } catch {
    throw new Error('deposits.xpub is not an extended public key: copy it once more from your wallet')
  }
  if (key.depth !== ACCOUNT_DEPTH)
    throw new Error(
      `deposits.xpub is of depth ${key.depth}, not ${ACCOUNT_DEPTH}: give that of an account, m/44'/60'/0', whose addresses are m/44'/60'/0'/0/<index>`,
    )
  if (key.privateKey !== null) throw new Error('deposits.xpub holds a private key: give the public one')
  return key
}

/** The last 20 bytes of the hash of both coordinates. */
function addressOf(publicKey: Uint8Array): string {
  const coordinates = secp256k1.Point.fromBytes(publicKey).toBytes(false).slice(1)
  return `0x${toHex(keccak_256(coordinates).slice(12))}`
}

/** Returns an address with the case of its letters so that a mistyped one is seen (EIP-55). */
export function showEvmAddress(address: string): string {
  const digits = address.slice(2)
  const hash = toHex(keccak_256(new TextEncoder().encode(digits)))
  const cased = [...digits].map((digit, index) =>
    Number.parseInt(hash[index] ?? '0', 16) >= 8 ? digit.toUpperCase() : digit,
  )
  return `0x${cased.join('')}`
}
