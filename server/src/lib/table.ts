/** Tables in text. Unless told otherwise they are as wide as a terminal at most: long cells go on in the lines below. */

/** The width of a terminal that nobody has made wider. */
const WIDTH_MAX = 80
const GAP = '  '
/** A column is not made narrower than this, however long its cells are. */
const NARROWEST = 6

/** Returns how many columns a program may write on a line of `stream`: as many as its terminal has; a file or a pipe has no end. */
export function terminalColumns(stream: { readonly isTTY?: boolean; readonly columns?: number }): number {
  // A terminal that does not know its width says 0 or nothing.
  return stream.isTTY === true ? stream.columns || WIDTH_MAX : Number.POSITIVE_INFINITY
}

/**
 * Rows in aligned columns, two spaces between them, without spaces at the ends of lines; at most `widthMost` columns wide, 80 unless
 * told otherwise. Ids and amounts stay whole; other cells go on in the line below.
 */
export function columns(rows: readonly (readonly string[])[], widthMost = WIDTH_MAX): string {
  const widths = narrowed(widthsOf(rows), rows, widthMost)
  const lines = rows.flatMap((row) => {
    const cells = row.map((cell, index) => broken(cell, widths[index] ?? 0))
    const height = Math.max(...cells.map((parts) => parts.length))
    return Array.from({ length: height }, (_, line) => cells.map((parts) => parts[line] ?? ''))
  })
  return lines.map((line) => lineOf(line, widths)).join('\n')
}

/** A table with a heading, or a sentence when there is nothing to show; `widthMost` as for {@link columns}. */
export function table(
  heading: readonly string[],
  rows: readonly (readonly string[])[],
  none: string,
  widthMost = WIDTH_MAX,
): string {
  return rows.length === 0 ? `${none}\n` : `${columns([heading, ...rows], widthMost)}\n`
}

/** Names and values, a line each, the values aligned. */
export function facts(rows: readonly (readonly [string, string])[]): string {
  return `${columns(rows)}\n`
}

/** An instant such as `2031-07-02T14:05:09.123Z` as tables show it: `2031-07-02 14:05`, in UTC. */
export function shortInstant(timestamp: string): string {
  return timestamp.slice(0, 16).replace('T', ' ')
}

function widthsOf(rows: readonly (readonly string[])[]): number[] {
  const widths: number[] = []
  for (const row of rows) {
    row.forEach((cell, index) => {
      widths[index] = Math.max(widths[index] ?? 0, width(cell))
    })
  }
  return widths
}

/** Where a cell may go on in the line below: best after spaces and commas, else after other signs, else anywhere. */
const BREAKS: readonly RegExp[] = [/[^ ,]*(?:[ ,]+|$)/g, /[^ ,:/@_.-]*(?:[ ,:/@_.-]+|$)/g, /./gsu]

/** Takes from the widest column that may give until all fit; at first no column breaks a word, later any may. */
function narrowed(widths: readonly number[], rows: readonly (readonly string[])[], widthMost: number): number[] {
  const fitting = [...widths]
  const surplus = () => fitting.reduce((sum, each) => sum + each, (fitting.length - 1) * GAP.length) - widthMost
  for (const pattern of BREAKS) {
    const least = widths.map((_, index) =>
      Math.max(...rows.map((row) => longestPiece(row[index] ?? '', pattern)), NARROWEST),
    )
    while (surplus() > 0) {
      const widest = fitting.reduce((found, each, index) => {
        const mayGive = each > (least[index] ?? 0)
        return mayGive && each > (fitting[found] ?? 0) ? index : found
      }, -1)
      if (widest === -1) break
      fitting[widest] = (fitting[widest] ?? 0) - 1
    }
  }
  return fitting
}

/** Ids and amounts. */
const isWhole = (cell: string) => /^(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]+|-?[0-9.]+)$/.test(cell)

function longestPiece(cell: string, pattern: RegExp): number {
  if (isWhole(cell)) return width(cell)
  return Math.max(0, ...(cell.match(pattern) ?? []).map((piece) => width(piece.trimEnd())))
}

/** A cell as the lines of its column. */
function broken(cell: string, most: number): string[] {
  if (width(cell) <= most) return [cell]
  const lines: string[] = []
  let line = ''
  for (const piece of piecesOf(cell, most)) {
    if (line !== '' && width((line + piece).trimEnd()) > most) {
      lines.push(line.trimEnd())
      line = ''
    }
    line += piece
  }
  return [...lines, line.trimEnd()]
}

/** The cell in pieces that fit, broken as well as they can be. */
function piecesOf(cell: string, most: number, level = 0): string[] {
  const pieces = cell.match(BREAKS[level] ?? /./gsu) ?? []
  return pieces.flatMap((piece) =>
    width(piece.trimEnd()) > most && level < BREAKS.length - 1 ? piecesOf(piece, most, level + 1) : [piece],
  )
}

function lineOf(row: readonly string[], widths: readonly number[]): string {
  return row
    .map((cell, index) => cell + ' '.repeat(Math.max((widths[index] ?? 0) - width(cell), 0)))
    .join(GAP)
    .trimEnd()
}

/** In columns of a terminal as far as accents go: code points, combining marks not counted. */
function width(text: string): number {
  return [...text.normalize('NFC').replace(/\p{M}/gu, '')].length
}
