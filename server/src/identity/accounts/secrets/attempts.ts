import { hash } from 'node:crypto'
import type { BucketLimiter } from '../../../lib/bucketLimiter.ts'
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../../lib/time.ts'

/** So many attempts at once, and then one in each time. */
interface AttemptLimit {
  readonly burst: number
  readonly everyMs: number
}

/** Links that are mailed. Each purpose counts for itself, so that nobody who registers an address uses up its resets. */
const LINKS = {
  address: { burst: 20, everyMs: 15 * SECOND_MS },
  email: { burst: 3, everyMs: 5 * MINUTE_MS },
} as const

/**
 * How often people may try. By the client's address, so that nobody guesses at many accounts from one place; and by the mail
 * address, so that nobody guesses at one account from many places. Known and unknown addresses count alike. A browser that the
 * person has signed in with before counts for itself alone, so that nobody locks the person out by failing.
 */
const LIMITS = {
  signIn: { address: { burst: 20, everyMs: 6 * SECOND_MS }, email: { burst: 30, everyMs: 20 * SECOND_MS } },
  reset: LINKS,
  registration: LINKS,
  newAddress: LINKS,
} as const satisfies Record<string, Record<'address' | 'email', AttemptLimit>>

/** One attempt of each address or person in so long a time is a first one; all others are further ones. */
const FIRST: AttemptLimit = { burst: 1, everyMs: 10 * MINUTE_MS }

/**
 * Of logins of programs. By the address, and in total. The total is in two parts: first attempts of an address or a person, and further
 * ones. A few addresses that try all the time use up the further ones alone, so that every other address still gets through.
 */
const DEVICE_LIMITS = {
  /**
   * Each is a row for ten minutes, and a code that could be guessed. In ten minutes at most 600 first ones and 400 further ones begin:
   * as many as may be open. A customer with an IPv6 /48 has 256 addresses (/56) and never uses up the first ones.
   */
  deviceLogin: {
    address: { burst: 10, everyMs: 30 * SECOND_MS },
    first: { burst: 300, everyMs: 2 * SECOND_MS },
    further: { burst: 100, everyMs: 2 * SECOND_MS },
  },
  /**
   * With all of 1,000 codes open, people who guess all the time find one in more than a year. It gains them nothing: they can give
   * away a key of their own organization then.
   */
  userCode: {
    address: { burst: 10, everyMs: 30 * SECOND_MS },
    first: { burst: 50, everyMs: 6 * SECOND_MS },
    further: { burst: 50, everyMs: 6 * SECOND_MS },
  },
} as const satisfies Record<string, Record<'address' | 'first' | 'further', AttemptLimit>>

/** Of a browser that has signed in with the account before. */
const KNOWN_BROWSER: AttemptLimit = { burst: 10, everyMs: 20 * SECOND_MS }
/** Of all such browsers of an account together: each sign-in of a browser without a mark makes one. */
const KNOWN_BROWSERS: AttemptLimit = { burst: 60, everyMs: 10 * SECOND_MS }

/** Of a person who is signed in, from wherever: who types codes of logins, or the password again, or changes ways to sign in. */
const PERSON_LIMITS = {
  userCode: { burst: 10, everyMs: 30 * SECOND_MS },
  password: { burst: 10, everyMs: 20 * SECOND_MS },
  /** Mails to addresses that may be strangers'. */
  newAddress: { burst: 10, everyMs: 12 * MINUTE_MS },
  /** New ways to sign in, and new names of them: each is an entry of the audit log, which is kept for 400 days, and mostly a mail. */
  change: { burst: 60, everyMs: MINUTE_MS },
} as const satisfies Record<string, AttemptLimit>

/** Invitations are mails to strangers. `recipient`: from one organization to one address, since each new one replaces the last. */
const INVITATIONS = {
  organization: { burst: 50, everyMs: MINUTE_MS },
  /** Anybody may have registered it, for the sake of these mails. */
  newOrganization: { burst: 10, everyMs: HOUR_MS },
  recipient: { burst: 5, everyMs: HOUR_MS },
} as const satisfies Record<string, AttemptLimit>

type AttemptKind = keyof typeof LIMITS
type DeviceAttemptKind = keyof typeof DEVICE_LIMITS

/** Counts attempts; null admits, else the seconds to wait. */
export interface AttemptCounter {
  byAddress(kind: AttemptKind | DeviceAttemptKind, address: string): Promise<number | null>
  byEmail(kind: AttemptKind, email: string): Promise<number | null>
  /** `browser`: the value of its cookie. It also counts for all known browsers of the mail address. */
  byKnownBrowser(browser: string, email: string): Promise<number | null>
  /** An invitation from an organization to a mail address. `isNew`: the organization is new (K2). */
  invitation(organizationId: string, email: string, isNew: boolean): Promise<number | null>
  /** A person who is signed in. */
  byPerson(kind: keyof typeof PERSON_LIMITS, userId: string): Promise<number | null>
  /** Of the whole installation. `from`: the address, or the id of the person where there is one. */
  inTotal(kind: DeviceAttemptKind, from: string): Promise<number | null>
}

/** Counts where requests of keys are counted: in memory, or for all processes in Redis. */
export function createAttemptCounter(limiter: BucketLimiter): AttemptCounter {
  const take = async (kind: string, by: string, value: string, { burst, everyMs }: AttemptLimit) => {
    // Redis and its logs hold no mail address.
    const bucket = `${kind} ${by} ${hash('sha256', value, 'base64url')}`
    const { admitted, standing } = await limiter.take(bucket, { perSecond: SECOND_MS / everyMs, burst })
    return admitted ? null : (standing?.retryAfterSeconds ?? 1)
  }
  return {
    byAddress: (kind, address) => take(kind, 'address', address, { ...LIMITS, ...DEVICE_LIMITS }[kind].address),
    byEmail: (kind, email) => take(kind, 'email', email.trim().toLowerCase(), LIMITS[kind].email),
    byKnownBrowser: async (browser, email) =>
      (await take('signIn', 'browser', browser, KNOWN_BROWSER)) ??
      (await take('signIn', 'browsers', email.trim().toLowerCase(), KNOWN_BROWSERS)),
    invitation: async (id, email, isNew) =>
      (await take('invitation', 'recipient', `${id} ${email.trim().toLowerCase()}`, INVITATIONS.recipient)) ??
      (isNew
        ? await take('invitation', 'new organization', id, INVITATIONS.newOrganization)
        : await take('invitation', 'organization', id, INVITATIONS.organization)),
    byPerson: (kind, id) => take(kind, 'person', id, PERSON_LIMITS[kind]),
    async inTotal(kind, from) {
      const part = (await take(kind, 'from', from, FIRST)) === null ? 'first' : 'further'
      return take(kind, part, '', DEVICE_LIMITS[kind][part])
    },
  }
}
