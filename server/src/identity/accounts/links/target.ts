/** Where a link leads. */
export type LinkTarget =
  | { readonly purpose: 'set_up' }
  | { readonly purpose: 'reset'; readonly userId: string }
  | { readonly purpose: 'invitation'; readonly invitationId: string }
  /** Confirms the new mail address of a person. */
  | { readonly purpose: 'address'; readonly userId: string; readonly email: string }
  /** Confirms the mail address of a stranger. */
  | { readonly purpose: 'registration'; readonly email: string }

/** A link, as a person's export shows it. Instants are milliseconds since the epoch. */
export interface GivenLink {
  readonly purpose: LinkTarget['purpose']
  /** The address that it confirms; null: it confirms none. */
  readonly email: string | null
  readonly createdAtMs: number
  readonly expiresAtMs: number
}
