import { expect, test } from 'bun:test'
import { TEST_XPUB } from '../../../../test/deposits/depositHouse.ts'
import { addressesByViem, TEST_BRANCH_XPUB, TEST_PRIVATE_KEY } from '../../../../test/deposits/wallet.ts'
import { createEvmAddresses, showEvmAddress } from './addresses.ts'

const INDEXES = [0, 1, 2, 1_000_000_007, 2 ** 31 - 1]

test('addresses are those that a wallet has for the same account, checksum and all', () => {
  const addresses = createEvmAddresses(TEST_XPUB)
  const shown = INDEXES.map((index) => showEvmAddress(addresses.at(index)))
  expect(shown).toEqual(addressesByViem(INDEXES))
  expect(shown[0]).toBe('0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266')
})

test('a private key is refused, and not quoted', () => {
  expect(() => createEvmAddresses(TEST_PRIVATE_KEY)).toThrow('holds a private key')
  expect(() => createEvmAddresses(TEST_PRIVATE_KEY)).not.toThrow(TEST_PRIVATE_KEY)
})

test('a key that is mistyped is refused', () => {
  const mistyped = TEST_XPUB.replace(/.$/, (last) => (last === 'a' ? 'b' : 'a'))
  expect(() => createEvmAddresses(mistyped)).toThrow('is not an extended public key')
})

test('a key that is not of an account is refused: wallets look for its addresses in another place', () => {
  expect(() => createEvmAddresses(TEST_BRANCH_XPUB)).toThrow('is of depth 4, not 3')
})
