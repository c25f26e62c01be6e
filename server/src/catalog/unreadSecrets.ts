import type { Path, Report } from './document.ts'
import { credentialOf, type SettingsContext, variableName } from './loadRemote.ts'

/** The keys of `payments`, and of entries of `accounts.identity_providers`, that name the variable of a credential. */
const SECRET_KEYS = ['secret_key_env', 'webhook_secret_env', 'client_secret_env'] as const

/** Reports the missing credentials of a section that was not read, because of another mistake in it: one run shows all. */
export function reportUnreadSecrets(section: unknown, path: Path, context: SettingsContext, report: Report): void {
  const entries: readonly (readonly [unknown, Path])[] = Array.isArray(section)
    ? section.map((entry, index) => [entry, [...path, index]] as const)
    : [[section, path]]
  for (const [entry, at] of entries) {
    if (typeof entry !== 'object' || entry === null) continue
    for (const key of SECRET_KEYS) {
      const variable: unknown = Object.hasOwn(entry, key) ? entry[key as keyof typeof entry] : undefined
      if (typeof variable !== 'string' || !variableName.safeParse(variable).success) continue
      credentialOf(variable, context, (reason) => report([...at, key], reason))
    }
  }
}
