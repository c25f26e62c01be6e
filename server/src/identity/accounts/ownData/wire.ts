/** Everything that is stored of a person, as the one file has it. No hash, token or secret is among it. */

import { z } from 'zod'

const id = z.string().meta({ format: 'uuid' })
const instant = z.iso.datetime()
const role = z.enum(['owner', 'admin', 'member'])
const fields = z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])).nullable()

const user = z.object({
  id,
  name: z.string(),
  email: z.string(),
  email_verified: z.boolean(),
  operator: z.boolean(),
  created_at: instant,
  updated_at: instant,
  password_set_at: instant.nullable().meta({ description: 'Null: the person has no password.' }),
})

const membership = z.object({
  id,
  organization_id: id,
  organization_name: z.string(),
  role,
  created_at: instant,
  removed_at: instant.nullable().meta({ description: 'Null: the person is a member.' }),
})

const session = z.object({
  id,
  current: z.boolean(),
  created_at: instant,
  expires_at: instant,
  address: z.string().nullable(),
  user_agent: z.string().nullable(),
})

const passkey = z.object({ id, name: z.string(), created_at: instant, last_used_at: instant.nullable() })

const identity = z.object({
  id,
  issuer: z.string(),
  subject: z.string().meta({ description: "The person's id at the identity provider." }),
  created_at: instant,
  last_used_at: instant.nullable(),
})

const apiKey = z.object({
  id,
  organization_id: id,
  member_id: id.nullable(),
  name: z.string().nullable(),
  scope: z.string(),
  admin: z.boolean(),
  state: z.enum(['active', 'expired', 'revoked']),
  created_at: instant,
  expires_at: instant.nullable(),
  revoked_at: instant.nullable(),
  last_used_at: instant.nullable(),
})

const deviceLogin = z.object({
  id,
  member_id: id,
  name: z.string(),
  address: z.string(),
  scope: z.string(),
  state: z.string(),
  created_at: instant,
  expires_at: instant,
})

const link = z.object({
  purpose: z.string(),
  email: z.string().nullable(),
  created_at: instant,
  expires_at: instant,
})

const invitation = z.object({
  id,
  organization_id: id,
  organization_name: z.string(),
  email: z.string(),
  role,
  state: z.enum(['open', 'accepted', 'withdrawn', 'expired']),
  created_at: instant,
  expires_at: instant,
})

const notices = z.object({ id, name: z.string() })

const mail = z.object({ id, subject: z.string(), due_at: instant })

const auditEntry = z.object({
  id,
  created_at: instant,
  organization_id: id.nullable(),
  action: z.string(),
  own: z.boolean().meta({ description: 'True if the person, or one of their API keys, made the change.' }),
  actor: z.object({
    kind: z.enum(['user', 'api_key', 'operator']),
    id: id.nullable().meta({ description: 'Null: somebody else, or an operator.' }),
    address: z.string().nullable(),
  }),
  subject_id: id.nullable(),
  before: fields,
  after: fields,
})

export const ownData = z
  .object({
    exported_at: instant,
    user,
    memberships: z.array(membership),
    sessions: z.array(session),
    passkeys: z.array(passkey),
    linked_identities: z.array(identity),
    api_keys: z.array(apiKey).meta({ description: 'Of all memberships. The keys themselves are stored nowhere.' }),
    device_logins: z.array(deviceLogin),
    links: z.array(link).meta({ description: 'That were mailed and not used. Their secrets are stored nowhere.' }),
    invitations_received: z.array(invitation),
    invitations_sent: z.array(invitation),
    notices_of_organizations: z
      .array(notices)
      .meta({ description: 'Organizations that tell an address of the person of their limits.' }),
    waiting_mails: z.array(mail).meta({ description: 'That were not sent yet, or could not be sent.' }),
    audit_entries: z
      .array(auditEntry)
      .meta({ description: 'What the person did, and what was done to the person; of 400 days.' }),
  })
  .meta({ id: 'OwnData' })

export type OwnData = z.infer<typeof ownData>

/** The lists of the file, each of which may be long. */
export type OwnList = { [Name in keyof OwnData]: OwnData[Name] extends readonly object[] ? Name : never }[keyof OwnData]
