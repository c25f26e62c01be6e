import type { Secret } from './secret.ts'

/** How mails leave; `infra/smtp.ts` makes a {@link MailTransport} of it. */
export interface SmtpServer {
  readonly host: string
  readonly port: number
  /** `starttls`: never without encryption, begun on an open connection. `implicit`: encrypted from the first byte. */
  readonly tls: 'starttls' | 'implicit' | 'none'
  /** Null where the server asks for none. */
  readonly login: { readonly user: string; readonly password: Secret } | null
  /** The sender of mails: an address, or a name with one in angle brackets. */
  readonly from: string
}

/** A mail in plain text to one address. */
export interface Mail {
  readonly to: string
  readonly subject: string
  readonly text: string
  /** The same for every attempt at the same mail: the left part of its Message-ID. Letters and digits. */
  readonly id: string
  readonly dateMs: number
}

export interface MailTransport {
  /** Resolves when the server has taken the mail; rejects within a minute otherwise: whether it has is not known then. */
  send(mail: Mail): Promise<void>
  /** Ends what is being sent. */
  close(): void
}
