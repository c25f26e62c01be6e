import type { Secret } from '../../../lib/secret.ts'

/** An identity provider, as the settings name it. */
export interface IdentityProviderOptions {
  readonly kind: 'oidc' | 'github'
  /** In the paths of its pages: lower-case letters, digits and dashes. */
  readonly id: string
  /** For people. */
  readonly name: string
  /** The address that it calls itself by; of GitHub, where it is. */
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: Secret
}

/** A person as an identity provider knows them. */
export interface Identity {
  readonly issuer: string
  /** The person's id there. */
  readonly subject: string
  /** Addresses that the provider has verified, in lower case. Empty where they were not asked for. */
  readonly verifiedEmails: readonly string[]
}

/** The secrets of one flow. */
export interface Flow {
  readonly state: string
  readonly nonce: string
  /** Of PKCE. */
  readonly verifier: string
}

export interface IdentityProvider {
  readonly id: string
  readonly name: string
  readonly issuer: string
  /** Returns the address at which the provider asks the person. Throws where the provider does not answer as it should. */
  askAt(flow: Flow, redirectUri: string): Promise<string>
  /**
   * Returns the identity that the provider's answer stands for. `answer`: the query of the request that the provider sent the browser
   * on with. Null when the provider, or the person there, refused. Throws where an answer is not as it should be.
   */
  identify(answer: URLSearchParams, flow: Flow, redirectUri: string, withEmails: boolean): Promise<Identity | null>
}

/** An identity with all that is stored of it. Instants are milliseconds since the epoch. */
export interface StoredIdentity extends LinkedIdentity {
  readonly id: string
  /** The person's id at the provider. */
  readonly subject: string
}

/** An identity in a person's own list. Instants are milliseconds since the epoch. */
export interface LinkedIdentity {
  readonly issuer: string
  readonly createdAtMs: number
  readonly lastUsedAtMs: number | null
}
