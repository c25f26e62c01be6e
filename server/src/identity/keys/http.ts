import { z } from 'zod'
import { jsonAnswer, KEPT_NOTHING, keptJson } from '../../http/jsonAnswer.ts'
import { showIdList } from '../../http/list.ts'
import type { Prepare, Work } from '../../http/onceForKey.ts'
import type { Handle, RouteRequest } from '../../http/pipeline.ts'
import { type KeyOrSession, SCOPE_LEVELS } from '../../http/principal.ts'
import { validate } from '../../http/validate.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import type { ClientAddress } from '../../lib/clientAddress.ts'
import { refusal } from '../../lib/errors.ts'
import { LIST_SHAPE } from '../../lib/listPage.ts'
import { ok, type Result, refused } from '../../lib/result.ts'
import { type Clock, DAY_SECONDS, SECOND_MS, toTimestamp } from '../../lib/time.ts'
import { actorOf } from '../audit/actor.ts'
import type { CreatedKey } from './create.ts'
import { parseExpiry } from './expiry.ts'
import { type ApiKey, keyStateAt, type ListedKey } from './key.ts'
import {
  changeKey,
  createKeyFor,
  type KeyCaller,
  type KeyDependencies,
  listKeysFor,
  revokeKeyFor,
  rotateKey,
} from './manage.ts'
import { parseKeyName } from './name.ts'
import { parseScopes, type Scopes } from './scopes.ts'
import { selectHeldKey } from './store.ts'

export interface KeyHttpDependencies extends KeyDependencies {
  readonly clientAddress: ClientAddress
}

export interface OwnKeyDependencies {
  readonly database: Queryable
  readonly clock: Clock
}

const OVERLAP_SECONDS = DAY_SECONDS
const OVERLAP_SECONDS_MOST = 30 * DAY_SECONDS

const name = z
  .string()
  .min(1)
  .max(100)
  .meta({ description: 'A label that lists show, such as the name of the program that uses the key.' })
const expires = z.string().max(64).meta({
  description: 'When it expires: a time from now, such as `30d` or `12h`, or an ISO date or date-time.',
})

export const keyRequest = z
  .strictObject({
    name: name.optional(),
    scope: z.string().max(200).meta({
      description: '`full_access`, `read_only`, or a list such as `serverless:write,billing:read`.',
    }),
    admin: z.boolean().default(false).meta({ description: "Whether it is an admin's key. Only an admin makes one." }),
    owner: z.enum(['member', 'organization']).optional().meta({
      description:
        "`member`: it ends with the person's membership; the default of a session. `organization`: only an admin makes one; the default, and all that there is, of a key.",
    }),
    expires: expires.optional().meta({ description: 'Left out: never.' }),
  })
  .meta({ id: 'ApiKeyRequest' })

export const keyChange = z
  .strictObject({ name: name.optional(), expires: expires.optional() })
  .meta({ id: 'ApiKeyChange' })

export const keyRotation = z
  .strictObject({
    overlap_seconds: z.int().min(0).max(OVERLAP_SECONDS_MOST).default(OVERLAP_SECONDS).meta({
      description: 'How long the old key still works.',
    }),
  })
  .meta({ id: 'ApiKeyRotation' })

const KEY_FIELDS = {
  id: z.string().meta({ format: 'uuid' }),
  name: z.string().nullable(),
  scope: z.string(),
  admin: z.boolean().meta({ description: "Whether it has an admin's rights now." }),
  member_id: z.string().nullable().meta({ format: 'uuid', description: 'Null: it belongs to the organization.' }),
  state: z.enum(['active', 'expired', 'revoked']),
  created_at: z.iso.datetime(),
  expires_at: z.iso.datetime().nullable(),
  revoked_at: z.iso.datetime().nullable(),
}

export const apiKeyEntry = z.object(KEY_FIELDS).meta({ id: 'ApiKey' })
export const newApiKey = z
  .object({ ...KEY_FIELDS, key: z.string().meta({ description: 'The key itself. It is never shown again.' }) })
  .meta({ id: 'NewApiKey' })
const listedApiKey = z
  .object({
    ...KEY_FIELDS,
    last_used_at: z.iso
      .datetime()
      .nullable()
      .meta({ description: 'When it was last used, to within two minutes. Null: never.' }),
  })
  .meta({ id: 'ListedApiKey' })
export const apiKeyPage = z
  .object({ data: z.array(listedApiKey), next_cursor: z.string().nullable() })
  .meta({ id: 'ApiKeyPage' })
const level = z.enum(SCOPE_LEVELS)
export const ownApiKey = z
  .object({
    ...KEY_FIELDS,
    levels: z.object({ serverless: level, billing: level, webhooks: level, instances: level }).meta({
      description: 'The `scope` by resource. `write` includes `read`.',
    }),
    organization: z.object({ id: z.string().meta({ format: 'uuid' }), name: z.string() }),
    person: z
      .object({ name: z.string(), email: z.string(), role: z.enum(['member', 'admin', 'owner']) })
      .nullable()
      .meta({ description: 'The member that the key belongs to. Null: it belongs to the organization.' }),
  })
  .meta({ id: 'OwnApiKey' })
export const keysQuery = z.object(LIST_SHAPE)

function callerOf({ clientAddress }: KeyHttpDependencies, call: RouteRequest<KeyOrSession>): KeyCaller {
  const { principal } = call
  const { organizationId } = principal
  const actor = actorOf(clientAddress, call)
  return principal.kind === 'session'
    ? { organizationId, actor, memberId: principal.id, isAdmin: principal.role !== 'member' }
    : { organizationId, actor, memberId: null, isAdmin: principal.admin }
}

/** GET /keys, of the management interface. */
export function showKeys(dependencies: KeyHttpDependencies): Handle<KeyOrSession> {
  const { database, clock } = dependencies
  return showIdList({
    name: 'keys',
    query: keysQuery,
    find: (call, beforeId, limit) => listKeysFor(database, callerOf(dependencies, call), beforeId, limit),
    toWire: (key) => listedToWire(key, clock.now()),
  })
}

/** POST /keys, of the management interface. */
export function postKey(dependencies: KeyHttpDependencies): Prepare<KeyOrSession> {
  const { clock } = dependencies
  return (call) => {
    const checked = validate(keyRequest, call.body, 'validation_failed', undefined, 'validation_failed')
    if (!checked.ok) return checked
    const { admin, owner } = checked.value
    const parsed = parseFields(checked.value, clock.now())
    if (!parsed.ok) return parsed
    const caller = callerOf(dependencies, call)
    const isMembers = (owner ?? (caller.memberId === null ? 'organization' : 'member')) === 'member'
    if (isMembers && caller.memberId === null) return refused(NO_MEMBER)
    const wanted = { ...parsed.value, admin, memberId: isMembers ? caller.memberId : null }
    return ok(async (attempt) => {
      const made = await createKeyFor(dependencies, caller, wanted, (key) => keepKey(attempt, key, clock.now()))
      return made.ok ? jsonAnswer(newToWire(made.value, clock.now()), 201) : made.refusal
    })
  }
}

const NO_MEMBER = refusal(
  'validation_failed',
  "With an API key you can only create keys of the organization: leave 'owner' out.",
  {
    param: 'owner',
  },
)

function parseFields(
  read: z.infer<typeof keyRequest>,
  nowMs: number,
): Result<{ name: string | undefined; scopes: Scopes; expiresAtMs: number | null }> {
  const scopes = parseScopes(read.scope)
  if (!scopes.ok) return scopes
  const changes = parseChanges(read, nowMs)
  if (!changes.ok) return changes
  return ok({ name: changes.value.name, scopes: scopes.value, expiresAtMs: changes.value.expiresAtMs ?? null })
}

function parseChanges(
  read: { readonly name?: string | undefined; readonly expires?: string | undefined },
  nowMs: number,
): Result<{ name: string | undefined; expiresAtMs: number | undefined }> {
  const parsedName = read.name === undefined ? ok(undefined) : parseKeyName(read.name)
  if (!parsedName.ok) return parsedName
  const expiry = read.expires === undefined ? ok(undefined) : parseExpiry(read.expires, nowMs)
  return expiry.ok ? ok({ name: parsedName.value, expiresAtMs: expiry.value }) : expiry
}

/** PATCH /keys/{id}, of the management interface. */
export function patchKey(dependencies: KeyHttpDependencies): Prepare<KeyOrSession> {
  const { clock } = dependencies
  return (call) => {
    const checked = validate(keyChange, call.body, 'validation_failed', undefined, 'validation_failed')
    if (!checked.ok) return checked
    const changes = parseChanges(checked.value, clock.now())
    if (!changes.ok) return changes
    const [id = ''] = call.parameters
    return ok(async (attempt) => {
      const changed = await changeKey(dependencies, callerOf(dependencies, call), id, changes.value, async (key) =>
        attempt === null ? [] : attempt.keep(keptJson(toWire(key, clock.now()), 200)),
      )
      return changed.ok ? jsonAnswer(toWire(changed.value, clock.now())) : changed.refusal
    })
  }
}

/** POST /keys/{id}/rotate, of the management interface. */
export function postRotation(dependencies: KeyHttpDependencies): Prepare<KeyOrSession> {
  const { clock } = dependencies
  return (call) => {
    const checked = validate(keyRotation, call.body, 'validation_failed', undefined, 'validation_failed')
    if (!checked.ok) return checked
    const [id = ''] = call.parameters
    const overlapMs = checked.value.overlap_seconds * SECOND_MS
    return ok(async (attempt) => {
      const made = await rotateKey(dependencies, callerOf(dependencies, call), id, overlapMs, (key) =>
        keepKey(attempt, key, clock.now()),
      )
      return made.ok ? jsonAnswer(newToWire(made.value, clock.now()), 201) : made.refusal
    })
  }
}

/** DELETE /keys/{id}, of the management interface. */
export function deleteKey(dependencies: KeyHttpDependencies): Prepare<KeyOrSession> {
  return (call) => {
    const [id = ''] = call.parameters
    return ok(async (attempt) => {
      const keep = async () => (attempt === null ? [] : attempt.keep(KEPT_NOTHING))
      const revoked = await revokeKeyFor(dependencies, callerOf(dependencies, call), id, keep)
      return revoked.ok ? new Response(null, { status: 204 }) : revoked.refusal
    })
  }
}

/** GET /key, of the management interface: a key tells its holder of itself. */
export function showOwnKey({ database, clock }: OwnKeyDependencies): Handle {
  return async ({ principal }) => {
    const { id, scopes } = principal
    const key = await selectHeldKey(database, id)
    if (key === undefined) return NO_LONGER
    const { serverless, billing, webhooks, instances } = scopes
    const body: z.infer<typeof ownApiKey> = {
      ...toWire(key, clock.now()),
      levels: { serverless, billing, webhooks, instances },
      organization: { id: key.organizationId, name: key.organizationName },
      person: key.person,
    }
    return jsonAnswer(body)
  }
}

const NO_LONGER = refusal('invalid_api_key', 'This API key is not valid any more.')

/** DELETE /key, of the management interface: a key ends itself. */
export function deleteOwnKey(dependencies: KeyHttpDependencies): Prepare {
  return (call) => {
    const { id, organizationId } = call.principal
    // Of the organization's keys it names itself alone, whatever its rights.
    const caller = { organizationId, actor: actorOf(dependencies.clientAddress, call), memberId: null, isAdmin: true }
    return ok(async (attempt) => {
      const keep = async () => (attempt === null ? [] : attempt.keep(KEPT_NOTHING))
      const revoked = await revokeKeyFor(dependencies, caller, id, keep)
      return revoked.ok ? new Response(null, { status: 204 }) : revoked.refusal
    })
  }
}

async function keepKey(attempt: Parameters<Work>[0], made: CreatedKey, nowMs: number) {
  return attempt === null ? [] : attempt.keep(keptJson(newToWire(made, nowMs), 201))
}

function toWire(key: ApiKey, nowMs: number): z.infer<typeof apiKeyEntry> {
  const instant = (epochMs: number | null) => (epochMs === null ? null : toTimestamp(epochMs))
  return {
    id: key.id,
    name: key.name,
    scope: key.scopes,
    admin: key.admin,
    member_id: key.memberId,
    state: keyStateAt(key, nowMs),
    created_at: toTimestamp(key.createdAtMs),
    expires_at: instant(key.expiresAtMs),
    revoked_at: instant(key.revokedAtMs),
  }
}

function listedToWire(key: ListedKey, nowMs: number): z.infer<typeof listedApiKey> {
  const { lastUsedAtMs } = key
  return { ...toWire(key, nowMs), last_used_at: lastUsedAtMs === null ? null : toTimestamp(lastUsedAtMs) }
}

function newToWire({ record, plaintext }: CreatedKey, nowMs: number): z.infer<typeof newApiKey> {
  return { ...toWire(record, nowMs), key: plaintext }
}
