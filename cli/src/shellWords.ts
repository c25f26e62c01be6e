/** Words that no shell reads as anything else. */
const PLAIN = /^[\w./:@+=,-]+$/
/** Characters that a message can't show, or that would end the quotation marks around a command. */
const HIDDEN = /["\\\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu

/** Returns a command line of `tollgate` in quotation marks, each word quoted so that it can be pasted into a shell. */
export function commandToType(words: readonly string[]): string {
  return `"${['tollgate', ...words].map(shellWord).join(' ')}"`
}

function shellWord(word: string): string {
  if (PLAIN.test(word)) return word
  if (word.search(HIDDEN) === -1) return `'${word.replaceAll("'", "'\\''")}'`
  return `$'${word.replace(HIDDEN, escaped).replaceAll("'", "\\'")}'`
}

/** Such as `\x22`, as `$'…'` of bash and zsh reads it. */
function escaped(character: string): string {
  const point = (character.codePointAt(0) ?? 0).toString(16)
  return point.length <= 2 ? `\\x${point.padStart(2, '0')}` : `\\U${point.padStart(8, '0')}`
}
