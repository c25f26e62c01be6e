/** How a room above says which of its changes are in the log: by work that joins the transaction of the change. */

import type { Participant } from '../../infra/postgres/database.ts'
import type { ClientAddress } from '../../lib/clientAddress.ts'
import { type RandomBytes, uuidV7 } from '../../lib/ids.ts'
import type { Clock } from '../../lib/time.ts'
import { type ActingRequest, actorOf } from './actor.ts'
import type { AuditedFields, NewAuditEntry } from './entry.ts'
import { writeAuditEntry } from './record.ts'

/** A change of the organization that a request acts for. */
type NotedChange = Pick<NewAuditEntry, 'action' | 'subjectId' | 'before' | 'after'>

/** Returns the work that writes a change by a request into the log. It may run again: the change is written once. */
export type NoteChange = (change: NotedChange) => Participant

/** Returns how the changes by a request are written. */
export type Noter = (call: ActingRequest) => NoteChange

/** Returns how the changes by requests are written. */
export function createNoter(dependencies: {
  readonly clock: Clock
  readonly random: RandomBytes
  readonly clientAddress: ClientAddress
}): Noter {
  const { clock, random, clientAddress } = dependencies
  return (call) => {
    const actor = actorOf(clientAddress, call)
    const { organizationId } = call.principal
    return (change) => {
      const createdAtMs = clock.now()
      const entry = { ...change, id: uuidV7(createdAtMs, random), organizationId, actor, createdAtMs }
      return async (tx) => {
        await writeAuditEntry(tx, entry)
        return true
      }
    }
  }
}

/** Returns the fields that differ, as they were and as they are. Null: none does. `before`: null where there was nothing. */
export function fieldsThatDiffer(
  before: AuditedFields | null,
  after: AuditedFields,
): Pick<NewAuditEntry, 'before' | 'after'> | null {
  if (before === null) return { before, after }
  const names = Object.keys(after).filter((name) => before[name] !== after[name])
  const only = (fields: AuditedFields) => Object.fromEntries(names.map((name) => [name, fields[name] ?? null]))
  return names.length === 0 ? null : { before: only(before), after: only(after) }
}
