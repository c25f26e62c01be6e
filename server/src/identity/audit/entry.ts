/** The person, key or operator that made a change. */
export interface Actor {
  /** `operator`: an operator of the installation, signed in or with a shell on the server. */
  readonly kind: 'user' | 'api_key' | 'operator'
  /** Of the person or the key; null for a shell on the server. */
  readonly id: string | null
  /** Of the client; null for a shell on the server. */
  readonly address: string | null
  /** True for a key that was let in with an admin's rights. */
  readonly isAdminsKey?: boolean
}

/** Fields by their names on the wire. */
export type AuditedFields = Readonly<Record<string, string | number | boolean | null>>

/** A change, as it is written down. */
export interface NewAuditEntry {
  /** Null: it concerns a person alone. */
  readonly organizationId: string | null
  readonly actor: Actor
  /** The thing and what was done to it, such as `member.removed`. */
  readonly action: string
  /** Of the thing; null where it has no id of its own. */
  readonly subjectId: string | null
  /** The fields that changed, as they were; null: there was nothing. */
  readonly before: AuditedFields | null
  /** The same, as they are; null: there is nothing. */
  readonly after: AuditedFields | null
}

/** The person whose entries are looked for. */
export interface AuditedPerson {
  /** Null: nobody has an account with the addresses. */
  readonly userId: string | null
  /** The mail addresses that are the person's, in lower case. */
  readonly addresses: readonly string[]
}

/** An entry of the log. */
export interface AuditEntry extends NewAuditEntry {
  /** A version 7 UUID: entries sort by it. */
  readonly id: string
  /** Milliseconds since the epoch. */
  readonly createdAtMs: number
}

/** An entry that a person made, by a session or a key of theirs, or that tells of the person. */
export interface OwnAuditEntry extends AuditEntry {
  /** True when the person made it. */
  readonly isOwn: boolean
}
