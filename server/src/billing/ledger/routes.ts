import { apiKeyOrSession } from '../../http/access.ts'
import type { Route } from '../../http/route.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import type { ReadAutoPay, ReadBurn } from './getBalance.ts'
import { balance, showBalance } from './http.ts'

interface BalanceRouteDependencies {
  readonly database: Queryable
  readonly readAutoPay: ReadAutoPay
  readonly readBurn: ReadBurn
}

export function balanceRoutes({ database, readAutoPay, readBurn }: BalanceRouteDependencies): Route[] {
  return [
    {
      method: 'GET',
      path: '/billing/balance',
      access: apiKeyOrSession('billing:read', 'member'),
      handle: showBalance(database, readBurn, readAutoPay),
      describe: {
        operationId: 'getBalance',
        summary: 'Read the credit balance',
        responses: { 200: { description: 'The balance.', content: { 'application/json': balance } } },
      },
    },
  ]
}
