import type { Sessions } from '../../http/pipeline.ts'
import type { Route } from '../../http/route.ts'
import type { DatabaseAddress } from '../../infra/postgres/address.ts'
import type { Database, Transaction } from '../../infra/postgres/database.ts'
import { openPgPool } from '../../infra/postgres/pgPool.ts'
import { enqueueMail } from '../../jobs/mail.ts'
import type { BucketLimiter } from '../../lib/bucketLimiter.ts'
import type { ClientAddress } from '../../lib/clientAddress.ts'
import type { DataKeys } from '../../lib/dataKeys.ts'
import type { RandomBytes } from '../../lib/ids.ts'
import type { Log } from '../../lib/log.ts'
import { isLoopback } from '../../lib/loopback.ts'
import type { MailTransport } from '../../lib/mail.ts'
import { readMailAddress } from '../../lib/mailAddress.ts'
import { sweepInBatches } from '../../lib/periodicTask.ts'
import { type Clock, DAY_MS, DAY_SECONDS, MINUTE_MS, toTimestamp } from '../../lib/time.ts'
import type { OpenAccount } from '../organizations/register.ts'
import { sweepDeviceLogins } from './device/begin.ts'
import { deviceRoutes } from './device/routes.ts'
import { removeSetUpFile } from './entry/setUpFile.ts'
import type { IdentityProviderOptions } from './identityProviders/identity.ts'
import { openIdentityProviders } from './identityProviders/open.ts'
import { identityRoutes } from './identityProviders/routes.ts'
import { sweepInvitations } from './invitations/erase.ts'
import { endInvitationsOf, type InvitingMember } from './invitations/invite.ts'
import { sweepLinks } from './links/link.ts'
import { enqueueLastMail, lastMailHandler } from './mail/lastMail.ts'
import { createLinkFile } from './mail/linkFile.ts'
import { linkMailHandler } from './mail/linkMail.ts'
import { ownDataRoutes } from './ownData/routes.ts'
import { cookiesOf } from './pages/browser.ts'
import { devicePageRoutes } from './pages/device/routes.ts'
import { accountPageRoutes, pageGuards, withWaysBack } from './pages/routes.ts'
import type { DeleteOrganization } from './pages/visit.ts'
import { sweepChallenges } from './passkeys/challenge.ts'
import { relyingPartyOf } from './passkeys/options.ts'
import { passkeyRoutes } from './passkeys/routes.ts'
import { openPasskeyVerifier } from './passkeys/verifier.ts'
import { findPasswordHashByEmail } from './people/find.ts'
import type { Person } from './people/person.ts'
import { invitationRoutes, memberRoutes, sessionRoutes } from './routes.ts'
import { createAttemptCounter } from './secrets/attempts.ts'
import { openBetterAuth, type PasswordHash } from './secrets/betterAuth.ts'
import { csrfTokenOf } from './secrets/token.ts'
import { authenticateSessions } from './sessions/authenticate.ts'
import { sweepSessions } from './sessions/own.ts'

const SWEEP_MS = 15 * MINUTE_MS

export interface AccountsOptions {
  readonly database: Database
  readonly databaseAddress: DatabaseAddress
  readonly clock: Clock
  readonly random: RandomBytes
  readonly log: Log
  readonly dataKeys: DataKeys
  readonly clientAddress: ClientAddress
  /** Where requests of keys are counted. */
  readonly rateLimiter: BucketLimiter
  /** Null: this server has no mail server. */
  readonly mailTransport: MailTransport | null
  /** Jobs were enqueued and committed. */
  readonly wakeJobs: () => void
  readonly dataDirectory: string
  readonly sessionDays: number
  /** True when strangers may register. */
  readonly takesStrangers: boolean
  /** Opens the account of a new organization. */
  readonly openAccount: OpenAccount
  /** Deletes an organization for one of its owners. */
  readonly deleteOrganization: DeleteOrganization
  /** True when this server rents machines. */
  readonly offersInstances: boolean
  /** True when this server takes payments. */
  readonly takesPayments: boolean
  /** Reads the balance of an organization, in micro-cents. */
  readonly readBalance: (organizationId: string) => Promise<bigint>
  /** True when people may sign in with passkeys. */
  readonly passkeys: boolean
  readonly identityProviders: readonly IdentityProviderOptions[]
  /** Where people reach this server, as the settings say; null: they do not. */
  readonly publicUrl: string | null
  /** Returns whether the server is to stop, so that long answers break off. */
  readonly isStopping: () => boolean
  /** Where it is to listen. */
  readonly host: string
  readonly port: number
  /** As in `BetterAuthOptions`. */
  readonly passwordHash?: PasswordHash | undefined
}

/** Opens the accounts of people. */
export async function openAccounts(options: AccountsOptions) {
  const { database, clock, random, log, mailTransport, dataDirectory, publicUrl, sessionDays, host } = options
  let base = publicUrl ?? `http://${host}:${options.port}`
  const origin = () => base
  const pool = await openPgPool(options.databaseAddress, (error) =>
    log.warn({ err: error }, 'accounts: a connection to the database broke'),
  )
  const passwords = await openBetterAuth({ ...options, pool })
  const cookies = cookiesOf(base.startsWith('https:'), sessionDays * DAY_SECONDS)
  const linkTransport =
    mailTransport ?? (isLoopback(new URL(base).hostname) ? createLinkFile(dataDirectory, log) : null)
  const pageDependencies = {
    database,
    clock,
    random,
    passwords,
    dataKeys: options.dataKeys,
    ...{ cookies, passwordHashOf: passwordHashIn(database) },
    attempts: createAttemptCounter(options.rateLimiter),
    endInvitations: (tx: Transaction, nowMs: number, member: InvitingMember) =>
      endInvitationsOf(tx, random, nowMs, member),
    takesStrangers: options.takesStrangers,
    openAccount: options.openAccount,
    deleteOrganization: options.deleteOrganization,
    ...{ sendsLinks: linkTransport !== null, mailsLinks: mailTransport !== null },
    onSetUp: () => removeSetUpFile(dataDirectory),
    ...offersOf(options),
    onEnqueued: options.wakeJobs,
    tellPasswordChanged: mailTransport === null ? async () => {} : tellPasswordChanged(clock),
    tellAddressChanged: mailTransport === null ? async () => {} : tellAddressChanged(clock),
    origin,
    ways: { passkeys: options.passkeys, identityProviders: options.identityProviders },
  }
  const dependencies = { ...pageDependencies, clientAddress: options.clientAddress }
  const page = (path: string) => `${base}/account${path}`
  const passkeys = options.passkeys ? await openPasskeys(options, pageDependencies) : NO_WAY
  const identities = await openSingleSignOn(options, pageDependencies)
  const sessions: Sessions = {
    cookie: cookies.session,
    get origin() {
      return base
    },
    authenticate: authenticateSessions({ database, clock, log }),
    csrfToken: csrfTokenOf,
  }
  return {
    sessions,
    routes: withWaysBack(pageDependencies, [
      ...accountPageRoutes(pageDependencies),
      ...devicePageRoutes(pageDependencies),
      ...deviceRoutes(dependencies),
      ...passkeys.routes,
      ...identities,
      ...sessionRoutes({ ...dependencies, cookie: cookies.session }),
      ...memberRoutes(dependencies),
      ...invitationRoutes(dependencies),
      ...openOwnData(options, dependencies),
    ]),
    jobHandlers: [
      lastMailHandler({ mailTransport, clock }),
      ...(linkTransport === null ? [] : [linkMailHandler({ ...dependencies, mailTransport: linkTransport, page })]),
    ],
    periodicTasks: [{ name: 'accounts', everyMs: SWEEP_MS, run: sweepOf(options, passkeys) }],
    /** Tells where the server listens; it counts only where the settings have no public URL. */
    listensAt(url: string): void {
      base = publicUrl ?? url
    },
    close: () => pool.end(),
  }
}

/** Returns the function that finds the hash of the password of a mail address, in whatever form somebody has typed it. */
function passwordHashIn(database: Database) {
  return (email: string) => findPasswordHashByEmail(database, readMailAddress(email) ?? '')
}

/** Returns the features that the pages show: instances, payments and the balance. */
function offersOf({ offersInstances, takesPayments, readBalance }: AccountsOptions) {
  return { offersInstances, takesPayments, readBalance }
}

/** Opens what people do with their own data; returns its routes and pages. */
function openOwnData(
  { random, log, mailTransport, isStopping }: AccountsOptions,
  dependencies: Parameters<typeof pageGuards>[0] & Pick<AccountsOptions, 'clientAddress'>,
): Route[] {
  return ownDataRoutes({
    ...dependencies,
    ...{ log, isStopping, guards: pageGuards(dependencies) },
    tellErased: mailTransport === null ? async () => {} : (tx, to, atMs) => enqueueLastMail(tx, random, to, atMs),
  })
}

interface SignInWay {
  readonly routes: Route[]
  /** Removes at most `atMost` rows that have expired; returns how many. */
  sweep(atMost: number): Promise<number>
}

const NO_WAY: SignInWay = { routes: [], sweep: async () => 0 }

/** Returns the function that removes the rows of accounts that have expired. */
function sweepOf({ database, clock }: AccountsOptions, passkeys: SignInWay) {
  return async (isStopping: () => boolean): Promise<void> => {
    await sweepInBatches((atMost) => sweepSessions({ database, clock }, atMost), isStopping)
    await sweepInBatches((atMost) => sweepLinks({ database, clock }, atMost), isStopping)
    await sweepInBatches((atMost) => sweepInvitations({ database, clock }, atMost), isStopping)
    await sweepInBatches((atMost) => sweepDeviceLogins({ database, clock }, atMost), isStopping)
    await sweepInBatches(passkeys.sweep, isStopping)
  }
}

/** Opens passkeys, by the guards of the other pages. */
async function openPasskeys(options: AccountsOptions, pages: Parameters<typeof pageGuards>[0]): Promise<SignInWay> {
  const { database, clock, random, mailTransport, sessionDays } = options
  const routes = passkeyRoutes({
    ...{ database, clock, random },
    sessionMs: sessionDays * DAY_MS,
    verifier: await openPasskeyVerifier(),
    relyingParty: () => relyingPartyOf(pages.origin()),
    tellOfChange: mailTransport === null ? async () => {} : tellOfChange(clock),
    guards: pageGuards(pages),
    onEnqueued: options.wakeJobs,
  })
  return { routes, sweep: (atMost) => sweepChallenges({ database, clock }, atMost) }
}

/** Opens the identity providers of the settings, by the guards of the other pages; returns their pages. */
async function openSingleSignOn(options: AccountsOptions, pages: Parameters<typeof pageGuards>[0]): Promise<Route[]> {
  const { database, clock, random, log, mailTransport, sessionDays } = options
  return identityRoutes({
    ...{ database, clock, random, log },
    sessionMs: sessionDays * DAY_MS,
    providers: await openIdentityProviders(clock, options.identityProviders),
    origin: pages.origin,
    cookies: pages.cookies,
    tellOfChange: mailTransport === null ? async () => {} : tellOfChange(clock),
    guards: pageGuards(pages),
    onEnqueued: options.wakeJobs,
  })
}

/** Returns the function that enqueues the mail to a person of whom another way of signing in was changed. */
function tellOfChange(clock: Clock) {
  return async (tx: Transaction, { id, email }: Person, change: string): Promise<void> => {
    const atMs = clock.now()
    await enqueueMail(tx, {
      organizationId: id,
      to: email,
      subject: 'The ways in which you sign in were changed',
      text: `${change} at ${toTimestamp(atMs)}.\n\nIf it was not you, set a new password, look at the passkeys of your account, and tell your admin.\n`,
      about: `sign-in changed ${atMs}`,
      dueAtMs: atMs,
    })
  }
}

/** Returns the function that enqueues the mail to a person whose password was changed. */
function tellPasswordChanged(clock: Clock) {
  return async (tx: Transaction, { id, email }: Person): Promise<void> => {
    const atMs = clock.now()
    await enqueueMail(tx, {
      organizationId: id,
      to: email,
      subject: 'Your password was changed',
      text: `The password of your account was changed at ${toTimestamp(atMs)}.\n\nIf it was not you, ask for a link to set a new one, and tell your admin.\n`,
      about: `password changed ${atMs}`,
      dueAtMs: atMs,
    })
  }
}

/** Returns the function that enqueues the mails to the old and the new address of a person. */
function tellAddressChanged(clock: Clock) {
  return async (tx: Transaction, { id, email: before }: Person, email: string): Promise<void> => {
    const atMs = clock.now()
    for (const to of [before, email]) {
      await enqueueMail(tx, {
        organizationId: id,
        to,
        subject: 'Your mail address was changed',
        text: `The mail address of your account was changed from ${before} to ${email} at ${toTimestamp(atMs)}.\n\nIf it was not you, tell your admin, or the operator of this server.\n`,
        about: `address changed ${atMs}`,
        dueAtMs: atMs,
      })
    }
  }
}
