/** Tables in memory, and transactions over them: what one writes is seen by others when it commits, all at once. */

/** Rows by their key. A row is never changed in place. */
export class Table<Row> {
  readonly rows = new Map<string, Row>()
}

type Changes = Map<Table<unknown>, Map<string, unknown>>

/** The view of one transaction: the rows that it sees and has written. Dropped without {@link commit}, it never was. */
export class View {
  private readonly changes: Changes = new Map()

  get<Row>(table: Table<Row>, key: string): Row | undefined {
    const changed = this.changes.get(table)
    return changed?.has(key) === true ? (changed.get(key) as Row | undefined) : table.rows.get(key)
  }

  put<Row>(table: Table<Row>, key: string, row: Row): void {
    this.changed(table).set(key, row)
  }

  delete<Row>(table: Table<Row>, key: string): void {
    this.changed(table).set(key, undefined)
  }

  /** All rows, in no order that anyone may rely on. */
  rows<Row>(table: Table<Row>): Row[] {
    const changed = this.changes.get(table)
    if (changed === undefined) return [...table.rows.values()]
    const found: Row[] = []
    for (const [key, row] of table.rows) if (!changed.has(key)) found.push(row)
    for (const row of changed.values()) if (row !== undefined) found.push(row as Row)
    return found
  }

  /** True when anything was written. */
  commit(): boolean {
    for (const [table, rows] of this.changes) {
      for (const [key, row] of rows) {
        if (row === undefined) table.rows.delete(key)
        else table.rows.set(key, row)
      }
    }
    return this.changes.size > 0
  }

  private changed<Row>(table: Table<Row>): Map<string, unknown> {
    const key = table as Table<unknown>
    const rows = this.changes.get(key) ?? new Map<string, unknown>()
    this.changes.set(key, rows)
    return rows
  }
}
