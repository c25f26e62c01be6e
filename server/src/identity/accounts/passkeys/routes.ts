/** The pages of passkeys, beneath /account. They are in no description. */

import { publicAccess } from '../../../http/access.ts'
import { ACCOUNT, type Route } from '../../../http/route.ts'
import {
  type PasskeyHttpDependencies,
  postNewPasskey,
  postPasskeySignIn,
  postRemovePasskey,
  postRenamePasskey,
  showNewPasskey,
  showPasskeySignIn,
  showPasskeys,
} from './http.ts'

/** The page that comes after the sign-in. */
const NEXT = { query: ['next'] } as const

/** A form with the answer of a device. */
const FORM = { body: 'form', bodyLimitBytes: 16 * 1024 } as const

export function passkeyRoutes(dependencies: PasskeyHttpDependencies): Route[] {
  const shared = { base: ACCOUNT, access: publicAccess } as const
  return [
    { ...shared, method: 'GET', path: '/passkey', handle: showPasskeySignIn(dependencies), ...NEXT },
    { ...shared, method: 'POST', path: '/passkey', handle: postPasskeySignIn(dependencies), ...FORM, ...NEXT },
    { ...shared, method: 'GET', path: '/passkeys', handle: showPasskeys(dependencies) },
    { ...shared, method: 'GET', path: '/passkeys/new', handle: showNewPasskey(dependencies) },
    { ...shared, method: 'POST', path: '/passkeys/new', handle: postNewPasskey(dependencies), ...FORM },
    { ...shared, method: 'POST', path: '/passkeys/rename', handle: postRenamePasskey(dependencies), ...FORM },
    { ...shared, method: 'POST', path: '/passkeys/remove', handle: postRemovePasskey(dependencies), ...FORM },
  ]
}
