import { parseSync } from 'oxc-parser'
import type { Source } from './sources.ts'

/** A sentence of a comment, with the line that the comment begins in, from 1. */
interface Sentence {
  readonly line: number
  readonly words: string
}

/** The sentences of a TypeScript file's comments. Line comments below each other are read as one comment. */
function sentencesOf({ path, text }: Source): Sentence[] {
  const blocks: { readonly isLine: boolean; readonly start: number; end: number; words: string }[] = []
  for (const { type, value, start, end } of parseSync(path, text).comments) {
    const isLine = type === 'Line'
    const last = blocks.at(-1)
    if (isLine && last?.isLine === true && /^\n[ \t]*$/.test(text.slice(last.end, start))) {
      Object.assign(last, { end, words: `${last.words} ${value}` })
    } else blocks.push({ isLine, start, end, words: value.replaceAll(/^\s*\*/gm, ' ') })
  }
  return blocks.flatMap(({ start, words }) => {
    const line = text.slice(0, start).split('\n').length
    const sentences = words.replaceAll(/\s+/g, ' ').split(/(?<=[.:;!?]) /)
    return sentences.map((each) => ({ line, words: each.trim() }))
  })
}

/** A clause that stands for a noun: "What a call may cost." The reader has to guess the noun. A question is none. */
const BARE = /^(What|Who|Whom|Whose|Whoever|Whatever|Whichever)\b.*[^?]$/
/** Files without any of these words need no parsing. */
const ANY = /\b(What|Who|Whom|Whose|Whoever|Whatever|Whichever)\b/

/** Returns the places of comments with a sentence that opens with a bare "What …" or "Who …", as `path:line (its first words)`. */
export function bareComments(sources: readonly Source[]): string[] {
  return sources
    .filter(({ text }) => ANY.test(text))
    .flatMap((source) =>
      sentencesOf(source)
        .filter(({ words }) => BARE.test(words))
        .map(({ line, words }) => `${source.path}:${line} (${words.slice(0, 30)})`),
    )
}
