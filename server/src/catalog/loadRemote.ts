import { z } from 'zod'
import { Secret } from '../lib/secret.ts'
import type { Path, Report } from './document.ts'
import { MAX_TOKENS_FIELDS, type RemoteDialect, type RemoteProviderSettings } from './provider.ts'
import { closed, readShape } from './shape.ts'

/** The things outside the file that it refers to: variables, files, programs. */
export interface SettingsContext {
  /** Where credentials come from. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** The folder that relative paths in the file start from: the file's own. */
  readonly directory: string
  fileExists(path: string): boolean
  /** The text of a file of at most 1 MiB; null where there is none. Left out: there are none. */
  readText?(path: string): string | null
  /** Returns whether a program of the machine is installed; left out: none is. */
  programExists?(name: string): boolean
  /** The address that the server listens on; left out: the file is not held against it. */
  readonly host?: string
  /** Several processes serve: none may run a model itself. */
  readonly isShared?: boolean
}

/**
 * Upper case only: most credentials hold lower-case letters, so that one put here by mistake is refused as a name, and
 * not quoted as a missing variable.
 */
const VARIABLE_NAME = /^[A-Z_][A-Z0-9_]{0,99}$/
export const variableName = z
  .string()
  .regex(
    VARIABLE_NAME,
    'must be the name of an environment variable (capitals, digits, _), never the credential itself',
  )

/** Printable ASCII: what a header can carry. */
const HEADER_VALUE = /^[\x20-\x7e]{1,8192}$/
const HEADER_NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$/

/** Headers that belong to the connection or to the call, and are set by the gateway. */
const OWN_HEADERS =
  /^(host|connection|content-.*|transfer-encoding|te|trailer|upgrade|accept|accept-encoding|expect|keep-alive|anthropic-version)$/i
/** Headers that hold credentials: their values come from the environment. */
const SECRET_HEADERS = /auth|key|token|secret|cookie|credential|password/i

const CREDENTIAL_HINT =
  "a credential must not be in this file: put it into an environment variable, and name that in 'api_key_env'"

const HEADER_FORM = "must be text, or '{ env: NAME }' with the name of an environment variable (capitals, digits, _)"

interface Remote {
  /** Where the API is that the dialect is of; null where there are many. */
  readonly baseUrl: string | null
  /** The path that is added to the base URL for each call; the base URL must not end in it already. */
  readonly path: RegExp
  readonly pathShown: string
  /** The header that carries the credential. */
  readonly keyHeader: string
}

const REMOTE = {
  openai: {
    baseUrl: null,
    path: /\/chat\/completions\/*$/,
    pathShown: '/chat/completions',
    keyHeader: 'authorization',
  },
  anthropic: {
    baseUrl: 'https://api.anthropic.com/v1',
    path: /\/messages\/*$/,
    pathShown: '/messages',
    keyHeader: 'x-api-key',
  },
  gemini: {
    baseUrl: 'https://generativelanguage.googleapis.com/v1beta',
    path: /\/models(\/.*)?$/,
    pathShown: '/models',
    keyHeader: 'x-goog-api-key',
  },
  comfyui: {
    baseUrl: null,
    path: /\/prompt\/*$/,
    pathShown: '/prompt',
    keyHeader: 'authorization',
  },
  sdcpp: {
    baseUrl: null,
    path: /\/images\/generations\/*$/,
    pathShown: '/images/generations',
    keyHeader: 'authorization',
  },
} as const satisfies Readonly<Record<RemoteDialect, Remote>>
const REMOTE_DIALECTS = Object.keys(REMOTE) as RemoteDialect[]

/** A provider of a dialect over HTTP as it stands in the file. */
export const RemoteShape = closed(
  {
    dialect: z.enum(REMOTE_DIALECTS),
    base_url: z.string().optional(),
    api_key_env: variableName.optional(),
    headers: z.record(z.string(), z.union([z.string(), closed({ env: variableName })], HEADER_FORM)).optional(),
    continuous_usage: z.boolean().optional(),
    max_tokens_field: z.enum(MAX_TOKENS_FIELDS).optional(),
  },
  { api_key: CREDENTIAL_HINT, key: CREDENTIAL_HINT, token: CREDENTIAL_HINT, apiKey: CREDENTIAL_HINT },
)

/** Reads one provider of a dialect over HTTP. Null where something was reported. */
export function loadRemote(
  name: string,
  value: unknown,
  path: Path,
  context: SettingsContext,
  report: Report,
): RemoteProviderSettings | null {
  const read = readShape(RemoteShape, value, path, report)
  if (read === null) return null
  const remote: Remote = REMOTE[read.dialect]
  const baseUrl = checkBaseUrl(read.base_url, remote, (reason) => report([...path, 'base_url'], reason))
  let apiKey: Secret | null = null
  let sound = baseUrl !== null
  if (read.api_key_env !== undefined) {
    apiKey = credentialOf(read.api_key_env, context, (reason) => report([...path, 'api_key_env'], reason))
    sound &&= apiKey !== null
  } else if (read.base_url === undefined && remote.baseUrl !== null) {
    report(
      [...path, 'api_key_env'],
      "is missing: it must be the NAME of the environment variable with the provider's key",
    )
    sound = false
  }
  const { continuous_usage: continuousUsage, max_tokens_field: maxTokensField } = read
  const ofOpenai = { continuous_usage: continuousUsage === true, max_tokens_field: maxTokensField !== undefined }
  for (const [key, isSet] of Object.entries(ofOpenai)) {
    if (!isSet || read.dialect === 'openai') continue
    report([...path, key], "is for the dialect 'openai' alone: remove it")
    sound = false
  }
  const headers: [string, Secret][] = []
  for (const [header, given] of Object.entries(read.headers ?? {})) {
    const reject = (reason: string) => report([...path, 'headers', header], reason)
    const isName = checkHeaderName(header, apiKey === null ? null : remote.keyHeader, typeof given === 'string', reject)
    const secret = !isName
      ? null
      : typeof given === 'string'
        ? headerValue(given, reject)
        : credentialOf(given.env, context, reject)
    if (secret === null) sound = false
    else headers.push([header.toLowerCase(), secret])
  }
  return sound && baseUrl !== null
    ? {
        name,
        dialect: read.dialect,
        baseUrl,
        apiKey,
        headers: Object.fromEntries(headers),
        ...(continuousUsage === true && { continuousUsage }),
        ...(maxTokensField !== undefined && { maxTokensField }),
      }
    : null
}

function checkBaseUrl(given: string | undefined, remote: Remote, reject: (reason: string) => void): string | null {
  const text = given ?? remote.baseUrl
  if (text === null) {
    reject("is missing: it must be the server's address, such as 'http://127.0.0.1:8000/v1'")
    return null
  }
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    reject("must be an address that starts with http:// or https://, such as 'http://127.0.0.1:8000/v1'")
  } else if (url.username !== '' || url.password !== '') {
    reject(`holds a user name or password: ${CREDENTIAL_HINT}`)
  } else if (url.search !== '' || url.hash !== '') {
    reject("must not have a query or fragment: remove everything from '?' or '#' on")
  } else if (remote.path.test(url.pathname)) {
    reject(`must end before '${remote.pathShown}': that is added for each call`)
  } else {
    return url.href.replace(/\/+$/, '')
  }
  return null
}

function checkHeaderName(
  header: string,
  keyHeader: string | null,
  isLiteral: boolean,
  reject: (reason: string) => void,
): boolean {
  if (!HEADER_NAME.test(header)) reject('is not the name of a header')
  else if (OWN_HEADERS.test(header)) reject('is set by the gateway: remove it')
  else if (header.toLowerCase() === keyHeader) reject("is set from 'api_key_env': remove one of them")
  else if (isLiteral && SECRET_HEADERS.test(header)) {
    reject(
      "may be a credential, which must not be in this file: write '{ env: NAME }' and set that environment variable",
    )
  } else return true
  return false
}

function headerValue(text: string, reject: (reason: string) => void): Secret | null {
  if (HEADER_VALUE.test(text)) return new Secret(text)
  reject('must be 1 to 8192 printable ASCII characters')
  return null
}

/** The credential that a variable holds; null where it holds none that can be used. */
export function credentialOf(
  variable: string,
  context: SettingsContext,
  reject: (reason: string) => void,
): Secret | null {
  const value = Object.hasOwn(context.environment, variable) ? context.environment[variable] : undefined
  if (value !== undefined && HEADER_VALUE.test(value)) return new Secret(value)
  reject(
    value === undefined || value === ''
      ? `the environment variable ${variable} is not set: set it before starting, or correct the name`
      : `the environment variable ${variable} holds characters that no header can carry (a line break?), or over 8192`,
  )
  return null
}
