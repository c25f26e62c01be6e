import { resolve } from 'node:path'
import { z } from 'zod'
import type { ArtifactPlace } from '../infra/artifacts/open.ts'
import type { Path, Report } from './document.ts'
import { credentialOf, type SettingsContext, variableName } from './loadRemote.ts'
import { closed, label } from './shape.ts'

/** The region of stores that know no regions; MinIO and its like expect it where nothing else is set. */
const REGION = 'us-east-1'
const PREFIX = 'tollgate/'

const CREDENTIAL_HINT =
  'a credential must not be in this file: put it into environment variables, and name these in access_key_id_env and secret_access_key_env'

/** The section `artifacts` as it stands in the file. */
export const ArtifactsShape = closed({
  folder: label.optional(),
  s3: closed(
    {
      endpoint: z
        .string()
        .regex(
          /^https?:\/\/[^\s?#@/]+\/*$/,
          "must be the store's address, such as 'https://s3.eu-central-1.amazonaws.com'",
        ),
      region: z
        .string()
        .regex(/^[a-z0-9-]{1,64}$/, 'must be a name of a-z, 0-9 and -')
        .optional(),
      bucket: z
        .string()
        .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, "must be a bucket's name: 3 to 63 of a-z, 0-9, '.' and '-'"),
      prefix: z
        .string()
        .regex(/^(?:[A-Za-z0-9._-]+\/)*$/, "must be empty or end in '/', of A-Z, a-z, 0-9, '.', '_', '-' and '/'")
        .max(200)
        .optional(),
      virtual_hosted: z.boolean().optional(),
      access_key_id_env: variableName,
      secret_access_key_env: variableName,
    },
    { access_key_id: CREDENTIAL_HINT, secret_access_key: CREDENTIAL_HINT },
  ).optional(),
})

/** Reads where artifacts are kept. Null where something was reported. */
export function loadArtifacts(
  { folder, s3 }: z.infer<typeof ArtifactsShape>,
  path: Path,
  context: SettingsContext,
  report: Report,
): ArtifactPlace | null {
  if (s3 === undefined)
    return { kind: 'folder', path: folder === undefined ? null : resolve(context.directory, folder) }
  if (folder !== undefined) {
    report([...path, 'folder'], "can't be combined with 's3': remove one of them")
    return null
  }
  const secret = (key: 'access_key_id_env' | 'secret_access_key_env') =>
    credentialOf(s3[key], context, (reason) => report([...path, 's3', key], reason))
  const accessKeyId = secret('access_key_id_env')
  const secretAccessKey = secret('secret_access_key_env')
  if (accessKeyId === null || secretAccessKey === null) return null
  return {
    kind: 's3',
    endpoint: s3.endpoint.replace(/\/+$/, ''),
    region: s3.region ?? REGION,
    bucket: s3.bucket,
    prefix: s3.prefix ?? PREFIX,
    virtualHosted: s3.virtual_hosted ?? false,
    accessKeyId,
    secretAccessKey,
  }
}
