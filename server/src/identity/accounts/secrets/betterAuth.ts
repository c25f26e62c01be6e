/** The package better-auth: it verifies passwords and begins sessions. No route of its own is served. */

import { hkdfSync } from 'node:crypto'
import type { Pool } from 'pg'
import { isDatabaseAway } from '../../../infra/postgres/faults.ts'
import type { DataKeys } from '../../../lib/dataKeys.ts'
import { refuse } from '../../../lib/errors.ts'
import type { Log } from '../../../lib/log.ts'
import { type Clock, DAY_MS, DAY_SECONDS } from '../../../lib/time.ts'
import { withHashedTokens } from './hashedTokens.ts'
import { PASSWORD_CHARACTERS } from './password.ts'
import { Turns } from './turns.ts'

const USER_AGENT_CHARACTERS_MOST = 256
/** Where the package reads the client's address; the handler sets it. Nothing of the client's own headers reaches it. */
const ADDRESS_HEADER = 'x-client-address'

/** How passwords are hashed. */
export interface PasswordHash {
  hash(password: string): Promise<string>
  verify(given: { readonly hash: string; readonly password: string }): Promise<boolean>
}

export interface BetterAuthOptions {
  readonly pool: Pool
  readonly dataKeys: Pick<DataKeys, 'take'>
  readonly sessionDays: number
  readonly clock: Clock
  readonly log: Log
  /** Left out: the package's own, which takes 60 ms of a processor each time, so that passwords can't be guessed from stolen hashes. */
  readonly passwordHash?: PasswordHash | undefined
}

/** The person and the browser of a sign-in. */
export interface Attempted {
  readonly email: string
  readonly password: string
  readonly address: string
  readonly userAgent: string
}

export interface BegunSession {
  readonly userId: string
  /** For the cookie. It is stored nowhere. */
  readonly token: string
}

/** The part of the package that accounts use. Each hash waits for its turn in the line of `address` ({@link Turns}). */
export interface Passwords {
  /** Begins a session. Null when the address is unknown or the password is wrong, which take the same time. */
  signIn(attempted: Attempted): Promise<BegunSession | null>
  hash(password: string, address: string): Promise<string>
  verify(hash: string, password: string, address: string): Promise<boolean>
}

/** Opens the package. It is loaded here, so that whoever has no accounts does not wait for it. */
export async function openBetterAuth({ pool, dataKeys, ...given }: BetterAuthOptions): Promise<Passwords> {
  const [{ betterAuth }, { getAdapter }] = await Promise.all([import('better-auth'), import('better-auth/db/adapter')])
  const options = optionsOf(secretOf(dataKeys), given)
  const adapter = withHashedTokens(await getAdapter({ ...options, database: pool }))
  const auth = betterAuth({ ...options, database: () => adapter })
  const { password } = await auth.$context
  const turns = new Turns()
  return {
    hash: (plain, address) => turns.take(address, () => password.hash(plain)),
    verify: (hash, plain, address) => turns.take(address, () => password.verify({ hash, password: plain })),
    async signIn({ email, password: plain, address, userAgent }) {
      const headers = new Headers({ [ADDRESS_HEADER]: address, 'user-agent': userAgent })
      try {
        const { token, user } = await turns.take(address, () =>
          auth.api.signInEmail({ body: { email, password: plain }, headers }),
        )
        return { userId: user.id, token }
      } catch (error) {
        if (isWrongPassword(error) || isPersonGone(error)) return null
        if (isDatabaseAway(error) || isServerAway(error)) refuse('upstream_unavailable', AWAY, { retryAfterSeconds: 1 })
        throw error
      }
    },
  }
}

/** Secrets that the package signs with follow from the data key, which all processes have. */
function secretOf(dataKeys: Pick<DataKeys, 'take'>): string {
  const { key, done } = dataKeys.take()
  done()
  return Buffer.from(hkdfSync('sha256', key, '', 'tollgate accounts', 32)).toString('hex')
}

function optionsOf(
  secret: string,
  { sessionDays, clock, log, passwordHash }: Pick<BetterAuthOptions, 'sessionDays' | 'clock' | 'log' | 'passwordHash'>,
) {
  return {
    // Given so, the package reads none from the environment.
    secrets: [{ version: 1, value: secret }],
    // No link and no cookie of the package is used.
    baseURL: 'http://127.0.0.1',
    telemetry: { enabled: false },
    rateLimit: { enabled: false },
    // Its messages name nobody; what it adds to them may.
    logger: { level: 'error', log: (_level: string, message: string) => log.warn({}, `better-auth: ${message}`) },
    emailAndPassword: {
      enabled: true,
      disableSignUp: true,
      minPasswordLength: PASSWORD_CHARACTERS.least,
      maxPasswordLength: PASSWORD_CHARACTERS.most,
      ...(passwordHash === undefined ? {} : { password: passwordHash }),
    },
    advanced: { database: { generateId: 'uuid', validateSchema: false } },
    databaseHooks: {
      session: {
        create: {
          before: async (session: object, context: { headers?: Headers | undefined } | null) => ({
            data: {
              ...session,
              // The package would go by the machine's own clock (E20).
              ...lifeFrom(clock.now(), sessionDays),
              ipAddress: context?.headers?.get(ADDRESS_HEADER) ?? null,
              userAgent: context?.headers?.get('user-agent')?.slice(0, USER_AGENT_CHARACTERS_MOST) ?? null,
            },
          }),
        },
      },
    },
    user: {
      modelName: 'users',
      fields: { emailVerified: 'email_verified', createdAt: 'created_at', updatedAt: 'updated_at' },
    },
    session: {
      modelName: 'sessions',
      expiresIn: sessionDays * DAY_SECONDS,
      disableSessionRefresh: true,
      fields: {
        userId: 'user_id',
        expiresAt: 'expires_at',
        createdAt: 'created_at',
        updatedAt: 'updated_at',
        ipAddress: 'ip_address',
        userAgent: 'user_agent',
      },
    },
    account: { modelName: 'credentials', fields: CREDENTIAL_FIELDS },
  } as const satisfies Parameters<typeof import('better-auth').betterAuth>[0]
}

function lifeFrom(nowMs: number, sessionDays: number) {
  const now = new Date(nowMs)
  return { createdAt: now, updatedAt: now, expiresAt: new Date(nowMs + sessionDays * DAY_MS) }
}

const CREDENTIAL_FIELDS = {
  userId: 'user_id',
  accountId: 'account_id',
  providerId: 'provider_id',
  accessToken: 'access_token',
  refreshToken: 'refresh_token',
  idToken: 'id_token',
  accessTokenExpiresAt: 'access_token_expires_at',
  refreshTokenExpiresAt: 'refresh_token_expires_at',
  createdAt: 'created_at',
  updatedAt: 'updated_at',
} as const

/** The state of PostgreSQL when a row names another that is not there. */
const FOREIGN_KEY_VIOLATION = '23503'

/** Codes of the package for a person who may not sign in. */
const WRONG = new Set(['INVALID_EMAIL_OR_PASSWORD', 'INVALID_EMAIL', 'PASSWORD_TOO_LONG'])

function isWrongPassword(error: unknown): boolean {
  const { body } = (error ?? {}) as { body?: { code?: unknown } }
  return typeof body?.code === 'string' && WRONG.has(body.code)
}

/**
 * Returns whether the person was erased between the check of the password and the session: there is nobody that it
 * could name.
 */
function isPersonGone(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown }
  return code === FOREIGN_KEY_VIOLATION
}

const AWAY = "The service can't do this at this moment; try again shortly."

/** Returns whether the pool says that its server was not reached, went away, or did not answer in time. */
function isServerAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const code = 'code' in error ? String(error.code) : ''
  return (
    /^(ECONN|EPIPE|ETIMEDOUT)/.test(code) ||
    /^(Connection terminated|timeout exceeded|Query read timeout|Client .* not queryable)/.test(error.message)
  )
}
