import { apiKeyOrSession } from '../../http/access.ts'
import { MANAGE, type Route } from '../../http/route.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import {
  type AutoPayBounds,
  type AutoPayHttpDependencies,
  autoPay,
  autoPayRequestOf,
  putAutoPay,
  showAutoPay,
} from './http.ts'

interface AutoPayRouteDependencies extends AutoPayHttpDependencies {
  readonly bounds: AutoPayBounds
  /** For reads whose clients wait. */
  readonly reads: Queryable
}

/** Beneath /manage/v1. */
export function autoPayRoutes({ bounds, reads, ...dependencies }: AutoPayRouteDependencies): Route[] {
  const responses = { 200: { description: 'Auto-pay as it is now.', content: { 'application/json': autoPay } } }
  return [
    {
      base: MANAGE,
      method: 'GET',
      path: '/auto-pay',
      access: apiKeyOrSession('billing:read', 'admin'),
      handle: showAutoPay(reads),
      describe: {
        operationId: 'getAutoPay',
        summary: 'Read auto-pay',
        description: "Needs an organization admin's key.",
        responses,
      },
    },
    {
      base: MANAGE,
      method: 'PUT',
      path: '/auto-pay',
      access: apiKeyOrSession('billing:write', 'admin'),
      body: 'json',
      prepare: putAutoPay(dependencies, bounds),
      describe: {
        operationId: 'setAutoPay',
        summary: 'Switch auto-pay on or off, or change it',
        description:
          "Needs an organization admin's key. While the balance is below the threshold, the amount is paid by the saved payment method, one payment at a time. 409 where none is saved: save one with a top-up.",
        requestBody: autoPayRequestOf(bounds),
        responses,
        refusals: [409],
      },
    },
  ]
}
