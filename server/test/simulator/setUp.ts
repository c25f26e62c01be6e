import { setLimit } from '../../src/billing/admission/accounts/limit.ts'
import { openAccount } from '../../src/billing/admission/balance/balance.ts'
import { grantCredit } from '../../src/billing/ledger/grantCredit.ts'
import { inTransaction } from '../../src/identity/audit/inTransaction.ts'
import { createOrganization } from '../../src/identity/organizations/create.ts'
import type { Database, SqlParameter, Transaction } from '../../src/infra/postgres/database.ts'
import type { RandomBytes } from '../../src/lib/ids.ts'
import type { Clock } from '../../src/lib/time.ts'
import { turnedDatabase } from '../turnedDatabase.ts'
import type { Engine } from './engine.ts'
import type { OrganizationPlan } from './plan.ts'

/** The engine as a database, without the scheduler: for what is there before a history begins. Its clock is at `nowMs`. */
export function directDatabase(engine: Engine, nowMs: number): Database {
  const query = async (text: string, parameters: readonly SqlParameter[] = []) =>
    text.includes('pg_notify') ? [] : await engine.query(text, parameters)
  const plain: Database = {
    query: <Row>(text: string, parameters?: readonly SqlParameter[]) => query(text, parameters) as Promise<Row[]>,
    async transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T> {
      const open = await engine.begin()
      try {
        const value = await work({
          isTransaction: true,
          query: async <Row>(text: string, parameters: readonly SqlParameter[] = []) =>
            (await open.query(text, parameters)) as Row[],
        })
        await open.commit()
        return value
      } catch (error) {
        await open.rollback()
        throw error
      }
    },
    close: async () => {},
  }
  return turnedDatabase(plain, { now: () => nowMs })
}

/** Makes the organizations of a plan with their accounts, credit and limits; their ids. */
export async function makeOrganizations(
  engine: Engine,
  clock: Clock,
  random: RandomBytes,
  plans: readonly OrganizationPlan[],
): Promise<string[]> {
  const database = directDatabase(engine, clock.now())
  const ids: string[] = []
  for (const [index, { isNew, creditMicrocents, limits }] of plans.entries()) {
    const made = await inTransaction(database, null, (tx) =>
      createOrganization(
        tx,
        { clock, randomBytes: random, openAccount },
        { name: `organization ${index + 1}`, standing: isNew ? 'new' : 'established' },
      ),
    )
    if (!made.ok) throw new Error(made.refusal.message)
    const { id } = made.value
    ids.push(id)
    const credit = { source: `first:${id}`, note: null, isPayment: false, atMs: clock.now() }
    if (creditMicrocents > 0n) {
      await database.transaction((tx) =>
        grantCredit(tx, random, { organizationId: id, amountMicrocents: creditMicrocents, ...credit }),
      )
    }
    if (limits !== null) {
      await setLimit(database, id, {
        monthlyMicrocents: limits.monthly,
        dailyMicrocents: limits.daily,
        enforcement: limits.enforcement,
        autoTerminateHours: undefined,
      })
    }
  }
  return ids
}
