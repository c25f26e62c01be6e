import { publicAccess } from '../../../http/access.ts'
import { cacheHeader } from '../../../http/describedHeaders.ts'
import { MANAGE, type Route } from '../../../http/route.ts'
import {
  type DeviceHttpDependencies,
  deviceCode,
  deviceCodeRequest,
  deviceToken,
  deviceTokenRefusal,
  deviceTokenRequest,
  postDeviceCode,
  postDeviceToken,
} from './http.ts'

/** A few short fields. */
const BODY_BYTES_MOST = 4 * 1024

const json = 'application/json'

/** Beneath /manage/v1. */
export function deviceRoutes(dependencies: DeviceHttpDependencies): Route[] {
  const shared = {
    base: MANAGE,
    method: 'POST',
    access: publicAccess,
    body: 'json',
    bodyLimitBytes: BODY_BYTES_MOST,
  } as const
  return [
    {
      ...shared,
      path: '/device/code',
      handle: postDeviceCode(dependencies),
      describe: {
        operationId: 'beginDeviceLogin',
        summary: 'Begin the login of a program (RFC 8628), with a JSON body',
        description:
          'Show the person `verification_uri` and `user_code`, then ask `/device/token` every `interval` seconds.',
        requestBody: deviceCodeRequest,
        responses: { 200: { description: 'The codes.', headers: cacheHeader, content: { [json]: deviceCode } } },
      },
    },
    {
      ...shared,
      path: '/device/token',
      handle: postDeviceToken(dependencies),
      describe: {
        operationId: 'exchangeDeviceCode',
        summary: 'Exchange the code of an approved login for an API key (RFC 8628), with a JSON body',
        description:
          "The key is a member's, has the name of the machine, and expires after 90 days. A code gives one key.",
        requestBody: deviceTokenRequest,
        responses: {
          200: { description: 'The key.', headers: cacheHeader, content: { [json]: deviceToken } },
          400: { description: 'There is no key.', headers: cacheHeader, content: { [json]: deviceTokenRefusal } },
        },
      },
    },
  ]
}
