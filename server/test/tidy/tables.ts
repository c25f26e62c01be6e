import type { Source } from './sources.ts'

const TABLE = /\b(create (?:unlogged )?|drop )table (?:if (?:not )?exists )?(\w+)|\balter table (\w+) rename to (\w+)/g

/** Returns the tables that the database has after all migrations, which run in the order of their names. */
export function tablesOf(sources: readonly Source[]): ReadonlySet<string> {
  const tables = new Set<string>()
  for (const { path, text } of sources) {
    if (!path.startsWith('server/migrations/') || !path.endsWith('.sql')) continue
    for (const [, verb, table, before, after] of text.replaceAll(/--.*/g, '').matchAll(TABLE)) {
      if (before !== undefined && after !== undefined && tables.delete(before)) tables.add(after)
      if (table === undefined) continue
      if (verb === 'drop ') tables.delete(table)
      else tables.add(table)
    }
  }
  return tables
}

const OWNS = /\*\*(?:It owns|Owns)\*\*.*?(?=\n\n|$)/gs
/** One word behind "the table", or a list of them behind "the tables". */
const LISTED = /\btables?\s+((?:`\w+`(?:,\s+and\s+|,\s+|\s+and\s+)?)+)/g

/** Returns the tables that READMEs say their folders own, each with the README's path. */
export function ownedTables(sources: readonly Source[]): ReadonlyMap<string, string> {
  const owned = new Map<string, string>()
  for (const { path, text } of sources) {
    if (!path.startsWith('server/src/') || !path.endsWith('/README.md')) continue
    for (const [paragraph] of text.matchAll(OWNS)) {
      for (const [, names = ''] of paragraph.matchAll(LISTED)) {
        for (const [, name = ''] of names.matchAll(/`(\w+)`/g)) owned.set(name, path)
      }
    }
  }
  return owned
}
