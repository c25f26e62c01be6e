/** Rows in aligned columns, two spaces between them, without spaces at the ends of lines. */
export function columns(rows: readonly (readonly string[])[]): string {
  const widths: number[] = []
  for (const row of rows) {
    row.forEach((cell, index) => {
      widths[index] = Math.max(widths[index] ?? 0, width(cell))
    })
  }
  return rows
    .map((row) =>
      row
        .map((cell, index) => cell + ' '.repeat((widths[index] ?? 0) - width(cell)))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

/** A table with a heading, or a sentence when there is nothing to show. */
export function table(heading: readonly string[], rows: readonly (readonly string[])[], none: string): string {
  return rows.length === 0 ? `${none}\n` : `${columns([heading, ...rows])}\n`
}

/** In columns of a terminal as far as accents go: code points, combining marks not counted. */
function width(text: string): number {
  return [...text.normalize('NFC').replace(/\p{M}/gu, '')].length
}
