import type { Database, Queryable } from '../infra/postgres/database.ts'
import type { ClientAddress } from '../lib/clientAddress.ts'
import type { RandomBytes } from '../lib/ids.ts'
import type { Log } from '../lib/log.ts'
import { type Clock, HOUR_MS, MINUTE_MS } from '../lib/time.ts'
import type { AccountsOptions } from './accounts/open.ts'
import { auditRoutes } from './audit/routes.ts'
import { sweepAuditLog } from './audit/sweep.ts'
import { createAuthenticator } from './keys/authenticate.ts'
import { type CallsByKey, createKeyEnds, KEYS_LOOK_MS } from './keys/endCalls.ts'
import { keyRoutes, ownKeyRoute } from './keys/routes.ts'
import { KEYS_CHANNEL } from './keys/store.ts'
import { createKeyUses } from './keys/uses.ts'
import { organizationRoutes } from './organizations/routes.ts'

interface IdentityMachine {
  readonly database: Database
  /** For reads whose clients wait. */
  readonly reads: Queryable
  readonly clock: Clock
  readonly random: RandomBytes
  readonly log: Log
  readonly clientAddress: ClientAddress
}

export interface IdentityOptions extends IdentityMachine {
  readonly openCalls: CallsByKey
  /** Null: nobody signs in. */
  readonly accounts: Omit<AccountsOptions, keyof IdentityMachine> | null
}

/** Opens the room of identity: the authenticator of API keys, the end of calls whose key has ended, and accounts of people. */
export async function openIdentity({ openCalls, accounts, ...machine }: IdentityOptions) {
  const { database, reads, clock, log } = machine
  const uses = createKeyUses(database)
  const { authenticate, hear, onConfirmed } = createAuthenticator({
    database,
    clock,
    uses,
    report: (error) => log.warn({ err: error }, 'a key could not be looked up'),
  })
  const ends = createKeyEnds({ database, clock, openCalls })
  const people = accounts && (await openPeople({ ...machine, ...accounts }))
  return {
    authenticate,
    /** Left out: nobody signs in. */
    ...(people === null ? {} : { sessions: people.sessions }),
    // Routes that manage keys exist only with accounts. Without them an operator manages keys by commands.
    routes: [
      ownKeyRoute({ database: reads, clock }),
      ...(people === null
        ? []
        : [
            ...people.routes,
            ...organizationRoutes(machine),
            ...keyRoutes(machine),
            ...auditRoutes({ database: reads }),
          ]),
    ],
    jobHandlers: people?.jobHandlers ?? [],
    channels: {
      [KEYS_CHANNEL](keyHash: string): void {
        hear(keyHash)
        ends.hear()
      },
    },
    onConfirmed(confirmed: boolean): void {
      onConfirmed(confirmed)
      ends.setCurrent(confirmed)
    },
    periodicTasks: [
      { name: 'calls of ended keys', everyMs: KEYS_LOOK_MS, run: ends.look },
      { name: 'uses of keys', everyMs: MINUTE_MS, run: uses.write },
      // Operators and keys change things without accounts too.
      {
        name: 'old audit entries',
        everyMs: HOUR_MS,
        run: (isStopping: () => boolean) => sweepAuditLog(machine, isStopping),
      },
      ...(people?.periodicTasks ?? []),
    ],
    /** Tells where the server listens, such as `http://127.0.0.1:8080`. */
    listensAt: (url: string) => people?.listensAt(url),
    async close(): Promise<void> {
      await uses.write().catch((error: unknown) => log.warn({ err: error }, 'the last uses of keys were not written'))
      await people?.close()
    },
  }
}

/** Loads the accounts where they are on: they are much of the program. */
async function openPeople(options: AccountsOptions) {
  const { openAccounts } = await import('./accounts/open.ts')
  return openAccounts(options)
}
