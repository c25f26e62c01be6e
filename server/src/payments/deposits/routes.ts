/** The routes of stablecoin deposits, beneath /v1. */

import { z } from 'zod'
import { apiKeyOrSession } from '../../http/access.ts'
import type { Route } from '../../http/route.ts'
import {
  cryptoDeposit,
  cryptoDepositList,
  type DepositHttpDependencies,
  depositRequestOf,
  postDeposit,
  showDeposit,
  showDeposits,
} from './deposit/http.ts'

export function depositRoutes(dependencies: DepositHttpDependencies): Route[] {
  return [
    {
      method: 'GET',
      path: '/billing/deposits',
      access: apiKeyOrSession('billing:read', 'member'),
      handle: showDeposits(dependencies),
      describe: {
        operationId: 'listCryptoDeposits',
        summary: 'List stablecoin deposits, the newest first, at most 50',
        responses: { 200: { description: 'The deposits.', content: { 'application/json': cryptoDepositList } } },
      },
    },
    {
      method: 'POST',
      path: '/billing/deposits/crypto',
      access: apiKeyOrSession('billing:write', 'member'),
      body: 'json',
      prepare: postDeposit(dependencies),
      describe: {
        operationId: 'createCryptoDeposit',
        summary: 'Begin a stablecoin deposit',
        description:
          'Send exactly `pay_amount` of `asset` on `chain` to `pay_address` before `expires_at`. What has come is credited once the chain can not take it back and it is screened; transfers of less than the server’s least amount wait until their sum reaches it, or makes up `pay_amount`. Tokens on another network are not found. On Solana `pay_address` is that of a wallet, whose token account the sender’s wallet makes where there is none.',
        requestBody: depositRequestOf(dependencies.settings),
        responses: { 201: { description: 'The deposit.', content: { 'application/json': cryptoDeposit } } },
        refusals: [400],
      },
    },
    {
      method: 'GET',
      path: '/billing/deposits/{id}',
      access: apiKeyOrSession('billing:read', 'member'),
      handle: showDeposit(dependencies),
      describe: {
        operationId: 'getCryptoDeposit',
        summary: 'Read a stablecoin deposit',
        requestParams: { path: z.object({ id: z.string() }) },
        responses: { 200: { description: 'The deposit.', content: { 'application/json': cryptoDeposit } } },
        refusals: [404],
      },
    },
  ]
}
