/** A figure of both databases; null: it was not measured there. */
export interface Row {
  readonly measure: string
  readonly small: number | null
  readonly large: number | null
  readonly unit: string
  /** How the last column compares them; left out: as a ratio. */
  readonly compared?: 'ratio' | 'difference' | 'not'
}

/** The rows of the table, as measures add them. Each is printed at once too, so that a run that is cut short has told something. */
export class Table {
  private readonly rows: (Row | string)[] = []

  add(row: Row): void {
    this.rows.push(row)
    console.log(`  ${cellsOf(row).join(' | ')}`)
  }

  /** Adds a line about something that was not measured, or what a figure stands for. */
  note(sentence: string): void {
    this.rows.push(sentence)
    console.log(`  ${sentence}`)
  }

  toString(): string {
    const rows = this.rows.filter((row): row is Row => typeof row !== 'string')
    const notes = this.rows.filter((row): row is string => typeof row === 'string')
    const lines = rows.map((row) => `| ${cellsOf(row).join(' | ')} |`)
    const heading = ['| measure | small | large | ratio or difference |', '|---|---|---|---|']
    return [...heading, ...lines, ...(notes.length === 0 ? [] : ['']), ...notes].join('\n')
  }
}

function cellsOf({ measure, small, large, unit, compared = 'ratio' }: Row): string[] {
  const cell = (value: number | null) =>
    value === null || Number.isNaN(value) ? 'not measured' : withUnit(value, unit)
  return [measure, cell(small), cell(large), comparison(small, large, unit, compared)]
}

function comparison(small: number | null, large: number | null, unit: string, compared: Row['compared']): string {
  if (small === null || large === null || compared === 'not') return ''
  if (compared === 'difference') return `${large >= small ? '+' : ''}${withUnit(large - small, unit)}`
  return small === 0 || Number.isNaN(large / small) ? '' : (large / small).toFixed(2)
}

function withUnit(value: number, unit: string): string {
  const digits = Number.isInteger(value) ? 0 : Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2
  return `${value.toFixed(digits)}${unit === '' ? '' : ` ${unit}`}`
}
