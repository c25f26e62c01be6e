import { z } from 'zod'
import type { SmtpServer } from '../lib/mail.ts'
import type { Path, Report } from './document.ts'
import { credentialOf, type SettingsContext, variableName } from './loadRemote.ts'
import { closed, label, whole } from './shape.ts'

const SMTP_PORT = 587

const PASSWORD_HINT =
  "a password must not be in this file: put it into an environment variable, and name that in 'password_env'"

const HOST = /^[a-z0-9]([a-z0-9.:-]{0,251}[a-z0-9])?$/i

/** An address, or a name and an address in angle brackets. */
const FROM = /^(?:[^<>\p{Cc}]{1,100} <([^<>\s@]{1,64}@[^<>\s@]{1,189})>|([^<>\s@]{1,64}@[^<>\s@]{1,189}))$/u

/** The section `smtp` as it stands in the file. */
export const SmtpShape = closed(
  {
    host: z.string().regex(HOST, "must be a server's name or address, such as mail.example.com"),
    port: whole(1, 65_535).optional(),
    tls: z.enum(['starttls', 'implicit', 'none']).optional(),
    user: label.optional(),
    password_env: variableName.optional(),
    from: z.string().regex(FROM, "must be an address, such as 'Tollgate <billing@example.com>'"),
  },
  { password: PASSWORD_HINT, pass: PASSWORD_HINT, secure: "use 'tls': starttls, implicit or none" },
)

/** Reads how notices are mailed. Null where something was reported. */
export function loadSmtp(
  read: z.infer<typeof SmtpShape>,
  path: Path,
  context: SettingsContext,
  report: Report,
): SmtpServer | null {
  const { host, port = SMTP_PORT, tls = 'starttls', user, password_env: variable, from } = read
  const server = { host, port, tls, from }
  if (user === undefined && variable === undefined) return { ...server, login: null }
  if (user === undefined) report([...path, 'password_env'], "needs 'user' beside it")
  else if (variable === undefined) report([...path, 'user'], "needs 'password_env' beside it")
  else if (tls === 'none') {
    report([...path, 'tls'], "a password is not sent without encryption: use starttls or implicit, or remove 'user'")
  } else {
    const password = credentialOf(variable, context, (reason) => report([...path, 'password_env'], reason))
    if (password !== null) return { ...server, login: { user, password } }
  }
  return null
}
