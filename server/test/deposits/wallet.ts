/** The wallet of the operator in the tests, by viem: the private half of the extended public key in the settings. */

import { mnemonicToAccount } from 'viem/accounts'

/** A chain of tests begins with the accounts of these words. */
const WORDS = 'test test test test test test test test test test test junk'

/** Of the account, with its private key. */
export const TEST_PRIVATE_KEY = mnemonicToAccount(WORDS, { path: "m/44'/60'/0'" }).getHdKey().privateExtendedKey

/** Of a branch of the account, and not of the account. */
export const TEST_BRANCH_XPUB = mnemonicToAccount(WORDS, { path: "m/44'/60'/0'/0" }).getHdKey().publicExtendedKey

/** Returns the addresses of the external branch, as viem makes them from the words. */
export function addressesByViem(indexes: readonly number[]): string[] {
  return indexes.map((addressIndex) => mnemonicToAccount(WORDS, { addressIndex }).address)
}
