/**
 * Returns the value of the cookie with this name in a `Cookie` header. Null when there is none, when it is empty, or when there
 * are two: another site of the same domain may have set the second, and nobody can tell which is ours.
 */
export function cookieOf(header: string | null, name: string): string | null {
  if (header === null) return null
  let found: string | null = null
  for (const part of header.split(';')) {
    const equals = part.indexOf('=')
    if (equals < 0 || part.slice(0, equals).trim() !== name) continue
    if (found !== null) return null
    found = part.slice(equals + 1).trim()
  }
  return found === '' ? null : found
}
