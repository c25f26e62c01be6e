/** A command in quotation marks stays in one piece, so that it can be copied. */
const PIECES = /"(?:\.\/)?tollgate [^"]*"[^ ]*|[^ ]+/g

/**
 * Breaks the lines of text at spaces, so that none is longer than `columns`. Lines that are indented or aligned by several spaces stay
 * as they are, and so does a word or a quoted command that is longer. `columns` is infinite where there is no terminal.
 */
export function wrapAtSpaces(text: string, columns: number): string {
  if (!Number.isFinite(columns)) return text
  return text
    .split('\n')
    .map((line) => (line.length <= columns || /^ | {2}/.test(line) ? line : wrapLine(line, columns)))
    .join('\n')
}

function wrapLine(line: string, columns: number): string {
  const lines: string[] = []
  let last = ''
  for (const piece of line.match(PIECES) ?? []) {
    if (last === '') last = piece
    else if (last.length + 1 + piece.length <= columns) last += ` ${piece}`
    else {
      lines.push(last)
      last = piece
    }
  }
  return [...lines, last].join('\n')
}
