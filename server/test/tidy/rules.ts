import type { Source } from './sources.ts'

/** The page in which every coded rule stands. */
export const RULES_PAGE = 'docs/rules.md'

/** A rule begins with a heading of the third level: its code, then its name. */
const DEFINITION = /^### ([A-Z]\d{1,2}) \S/gm

/** Every word of a capital letter and one or two digits is taken for a code, so that a wrong letter is found too. */
const CODE = /\b[A-Z]\d{1,2}\b/g

/** `V3 to V7`: cites the codes between the two as well. */
const RANGE = /\b([A-Z])(\d{1,2}) to \1(\d{1,2})\b/g

/** Words that look like a code and are none. */
export const NO_CODES: Readonly<Record<string, string>> = {
  F0: 'percent-encoded bytes',
  F32: 'the type of a tensor in a GGUF file',
  L6: 'in the name all-MiniLM-L6-v2',
  Q4: 'in the names of quantized GGUF files',
  S3: 'the protocol of object stores',
  T00: 'midnight in a timestamp',
  X11: 'in the user agents of browsers on Linux',
  Z0: 'in a regular expression, such as A-Z0-9',
}

/** A code where it is cited. */
export interface Citation {
  readonly code: string
  /** `path:line`. */
  readonly place: string
}

/** Returns the codes that a page of rules defines, in its order; one that is defined twice is there twice. */
export function definedCodes(page: string): string[] {
  return [...page.matchAll(DEFINITION)].map(([, code = '']) => code)
}

/** Returns every citation of a code in a file, those of ranges included, in the order of the lines. */
export function citedCodes({ path, text }: Source): Citation[] {
  return text.split('\n').flatMap((line, index) => {
    const codes = [...(line.match(CODE) ?? []), ...[...line.matchAll(RANGE)].flatMap(codesBetween)]
    return codes.filter((code) => NO_CODES[code] === undefined).map((code) => ({ code, place: `${path}:${index + 1}` }))
  })
}

function codesBetween([, letter = '', first = '', last = '']: RegExpExecArray): string[] {
  const between = Math.max(Number(last) - Number(first) - 1, 0)
  return Array.from({ length: between }, (_, index) => `${letter}${Number(first) + 1 + index}`)
}
