/** The pages of device logins, beneath /account/device. They are in no description. */

import { publicAccess } from '../../../../http/access.ts'
import { ACCOUNT, type Route } from '../../../../http/route.ts'
import { handlePage } from '../http.ts'
import type { PageDependencies, PageHandle } from '../visit.ts'
import { postApproval, postDenial, postEnteredCode, showDecision, showEnterCode } from './handlers.ts'

/** A form has a few short fields. */
const FORM = { body: 'form', bodyLimitBytes: 16 * 1024 } as const

const LOGIN = { query: ['login'] } as const

export function devicePageRoutes(dependencies: PageDependencies): Route[] {
  const shared = { base: ACCOUNT, access: publicAccess } as const
  const page = (answer: PageHandle) => handlePage(dependencies, answer)
  const [enter, approve, deny] = ['/device', '/device/approve', '/device/deny'] as const
  return [
    { ...shared, method: 'GET', path: enter, handle: page(showEnterCode(dependencies)) },
    { ...shared, ...FORM, method: 'POST', path: enter, handle: page(postEnteredCode(dependencies)) },
    { ...shared, ...LOGIN, method: 'GET', path: approve, handle: page(showDecision(dependencies)) },
    { ...shared, ...LOGIN, ...FORM, method: 'POST', path: approve, handle: page(postApproval(dependencies)) },
    { ...shared, ...LOGIN, ...FORM, method: 'POST', path: deny, handle: page(postDenial(dependencies)) },
  ]
}
