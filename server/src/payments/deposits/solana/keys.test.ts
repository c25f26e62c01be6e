import { expect, test } from 'bun:test'
import { newWallets, SolanaTestChain } from '../../../../test/deposits/solanaChain.ts'
import { makeSolanaToken } from '../../../../test/deposits/solanaToken.ts'
import { ISSUED_TOKENS } from '../../../catalog/depositChain.ts'
import { faultOfSolanaWallet, tokenAccountOf } from './keys.ts'

const { usdc = '' } = ISSUED_TOKENS.solana

test('token accounts are those that wallets send to', async () => {
  const chain = await SolanaTestChain.open()
  const token = await makeSolanaToken(chain)
  const wallets = await newWallets(50)
  const expected = await Promise.all(wallets.map((wallet) => token.accountOf(wallet)))
  expect(wallets.map((wallet) => tokenAccountOf(wallet, token.address))).toEqual(expected)
  await chain.close()
})

test('addresses of wallets are taken', async () => {
  const wallets = await newWallets(20)
  expect(wallets.map(faultOfSolanaWallet)).toEqual(wallets.map(() => null))
})

const WALLET = 'GWwGqkXR3dkNJAYzpKPgsqPz9kDHqCbCQC1iCMMsQBTj'
const PRIVATE_KEY = '5MaiiCavjCmn9Hs1o3eznqDEhRwxo7pXiAYez7keQUviUkauRiTMD8DrESdrNjN8zd9mTmVhRvBJeg5vhyvgrAhG'

test.each([
  ['a token account', tokenAccountOf(WALLET, usdc), 'the address of no wallet'],
  ['the system program', '1'.repeat(32), 'the address of no wallet'],
  ['an address of the EVM', '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266', 'no address of Solana'],
  ['one that is cut off', WALLET.slice(0, -4), 'no address of Solana'],
  ['nothing', '', 'no address of Solana'],
  ['a private key', PRIVATE_KEY, 'a private key'],
  ['the file of a private key', '[174,47,154,16,202,193,206,113]', 'a private key'],
])('%s is refused, and not quoted', (_, text, reason) => {
  const fault = faultOfSolanaWallet(text)
  expect(fault).toContain(reason)
  if (text !== '') expect(fault).not.toContain(text)
})
