import { z } from 'zod'
import { showIdList } from '../../http/list.ts'
import type { Handle } from '../../http/pipeline.ts'
import type { KeyOrSession } from '../../http/principal.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import { LIST_SHAPE } from '../../lib/listPage.ts'
import { toTimestamp } from '../../lib/time.ts'
import type { AuditEntry } from './entry.ts'
import { listChanges } from './list.ts'

const fields = z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])).nullable()

const auditEntry = z
  .object({
    id: z.string().meta({ format: 'uuid' }),
    created_at: z.iso.datetime(),
    action: z.string().meta({ description: 'The thing and what was done to it, such as `member.removed`.' }),
    actor: z.object({
      kind: z.enum(['user', 'api_key', 'operator']),
      id: z.string().nullable().meta({ format: 'uuid', description: 'Null: an operator of this server.' }),
      address: z.string().nullable(),
    }),
    subject_id: z
      .string()
      .nullable()
      .meta({ format: 'uuid', description: 'The member, key, webhook endpoint or other thing. Null: it has no id.' }),
    before: fields.meta({ description: 'The fields that changed, as they were. Null: there was nothing.' }),
    after: fields.meta({ description: 'The same, as they are. Null: there is nothing.' }),
  })
  .meta({ id: 'AuditEntry' })

export const auditPage = z
  .object({ data: z.array(auditEntry), next_cursor: z.string().nullable() })
  .meta({ id: 'AuditPage' })

export const auditQuery = z.object(LIST_SHAPE)

/** GET /audit, of the management interface. */
export function showChanges(database: Queryable): Handle<KeyOrSession> {
  return showIdList({
    name: 'audit',
    query: auditQuery,
    find: ({ principal }, beforeId, limit) => listChanges(database, principal.organizationId, beforeId, limit),
    toWire,
  })
}

function toWire({ id, createdAtMs, action, actor, subjectId, before, after }: AuditEntry): z.infer<typeof auditEntry> {
  return {
    id,
    created_at: toTimestamp(createdAtMs),
    action,
    // The customer does not learn which operator did it, nor from where.
    actor: actor.kind === 'operator' ? { kind: actor.kind, id: null, address: null } : actor,
    subject_id: subjectId,
    before: before && { ...before },
    after: after && { ...after },
  }
}
