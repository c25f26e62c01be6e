/** The routes and pages of a person's own data. The pages are in no description. */

import { publicAccess, session } from '../../../http/access.ts'
import { ACCOUNT, MANAGE, type Route } from '../../../http/route.ts'
import {
  createOwnExporter,
  erasureRequest,
  type OwnDataDependencies,
  postErase,
  putErasure,
  showErase,
  showOwnData,
  showOwnDataPage,
} from './http.ts'
import { ownData } from './wire.ts'

/** A form has a few short fields. */
const FORM = { body: 'form', bodyLimitBytes: 16 * 1024 } as const
const NO_KEYS = 'Needs a session: no API key reads or erases what belongs to a person.'

export function ownDataRoutes(dependencies: OwnDataDependencies): Route[] {
  const exporter = createOwnExporter(dependencies)
  const page = { base: ACCOUNT, access: publicAccess } as const
  return [
    {
      base: MANAGE,
      method: 'GET',
      path: '/account/export',
      access: session('member'),
      takesPlace: true,
      handle: showOwnData(dependencies, exporter),
      describe: {
        operationId: 'exportOwnData',
        summary: 'Export everything that is stored about you',
        description: `You must have signed in within the last ten minutes. Two exports may be open at once for a person. ${NO_KEYS}`,
        responses: {
          200: {
            description: 'One file.',
            content: { 'application/json': ownData },
            headers: {
              'Content-Disposition': {
                description: 'Names a file for the export.',
                required: true,
                schema: { type: 'string' },
              },
            },
          },
        },
      },
    },
    {
      base: MANAGE,
      method: 'PUT',
      path: '/account/erasure',
      access: session('member'),
      body: 'json',
      isBodyOptional: true,
      bodyLimitBytes: FORM.bodyLimitBytes,
      prepare: putErasure(dependencies),
      describe: {
        operationId: 'eraseOwnAccount',
        summary: 'Erase your account',
        description: `It can't be undone. Your sessions end, and the API keys of your memberships. The last owner of an organization and the last operator of the server can't do it (422). ${NO_KEYS}`,
        requestBody: erasureRequest,
        responses: {
          204: {
            description: 'The account is erased.',
            headers: {
              'Set-Cookie': {
                description: 'Removes the cookies of the browser.',
                required: true,
                schema: { type: 'string' },
              },
            },
          },
        },
        refusals: [404],
      },
    },
    { ...page, method: 'GET', path: '/export', handle: showOwnDataPage(dependencies, exporter) },
    { ...page, method: 'GET', path: '/erase', handle: showErase(dependencies) },
    { ...page, method: 'POST', path: '/erase', handle: postErase(dependencies), ...FORM },
  ]
}
