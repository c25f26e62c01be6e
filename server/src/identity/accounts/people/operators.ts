import type { Database, Queryable } from '../../../infra/postgres/database.ts'
import { Refused, refusal } from '../../../lib/errors.ts'
import type { RandomBytes } from '../../../lib/ids.ts'
import type { Result } from '../../../lib/result.ts'
import type { Clock } from '../../../lib/time.ts'
import { inTransaction } from '../../audit/inTransaction.ts'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Person } from './person.ts'
import { selectOperators, updateOperator } from './store.ts'

/** Lists the operators of the installation, by their addresses. */
export function listOperators(database: Queryable): Promise<Person[]> {
  return selectOperators(database)
}

/**
 * Makes the person with an address an operator, or takes that away, from the person's next request on. Does nothing where it is so
 * already. Refused (`not_found`) where nobody has the address.
 */
export function setOperator(
  { database, clock, random }: { readonly database: Database; readonly clock: Clock; readonly random: RandomBytes },
  email: string,
  isOperator: boolean,
): Promise<Result<Person>> {
  return inTransaction(database, null, async (tx) => {
    const nowMs = clock.now()
    const found = await updateOperator(tx, email.toLowerCase(), isOperator, nowMs)
    if (found === undefined) {
      throw new Refused(refusal('not_found', `Nobody has an account with the address "${email}": check the address.`))
    }
    if (found.isChanged)
      await recordAuditEntry(tx, random, nowMs, {
        organizationId: null,
        actor: { kind: 'operator', id: null, address: null },
        action: isOperator ? 'operator.added' : 'operator.removed',
        subjectId: found.person.id,
        before: { operator: !isOperator },
        after: { operator: isOperator },
      })
    return found.person
  })
}
