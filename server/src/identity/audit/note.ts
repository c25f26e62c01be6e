/** How a room above says which of its changes are in the log: by work that joins the transaction of the change. */

import { NO_ADMIN, type SessionPrincipal } from '../../http/principal.ts'
import type { Participant, Transaction } from '../../infra/postgres/database.ts'
import type { ClientAddress } from '../../lib/clientAddress.ts'
import { Refused, refusal } from '../../lib/errors.ts'
import { type RandomBytes, uuidV7 } from '../../lib/ids.ts'
import type { Clock } from '../../lib/time.ts'
import { type ActingRequest, actorOf } from './actor.ts'
import type { AuditedFields, NewAuditEntry } from './entry.ts'
import { writeAuditEntry } from './record.ts'
import { selectRoleNow } from './store.ts'

const REMOVED = refusal('insufficient_scope', 'You are no longer a member of this organization. Nothing was changed.')

/** A change of the organization that a request acts for. */
type NotedChange = Pick<NewAuditEntry, 'action' | 'subjectId' | 'before' | 'after'>

/**
 * Returns the work that writes a change by a request into the log. It may run again: the change is written once. It throws
 * {@link Refused} where the caller has ended by now: a key as {@link writeAuditEntry} says; a person who was removed from the
 * organization, or who came as an admin and is none any more, while the request waited.
 */
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
    const { principal } = call
    const { organizationId } = principal
    return (change) => {
      const createdAtMs = clock.now()
      const entry = { ...change, id: uuidV7(createdAtMs, random), organizationId, actor, createdAtMs }
      return async (tx) => {
        if (principal.kind === 'session') await refuseFormer(tx, principal)
        await writeAuditEntry(tx, entry, clock.now())
        return true
      }
    }
  }
}

async function refuseFormer(tx: Transaction, { id, role }: Pick<SessionPrincipal, 'id' | 'role'>): Promise<void> {
  const now = await selectRoleNow(tx, id)
  if (now === undefined) throw new Refused(REMOVED)
  if (now === 'member' && role !== 'member') throw new Refused(NO_ADMIN)
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
