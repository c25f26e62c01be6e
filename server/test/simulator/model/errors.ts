/** A fault of a statement in the simulator, in the words of a database. */
export class StatementError extends Error {
  /** As PostgreSQL names it; null where it is no word of the server, such as a connection that was closed. */
  readonly sqlState: string | null
  /** No partition takes the row: of the class of refused data, and no refusal. */
  readonly isPartitionMissing: boolean

  constructor(message: string, sqlState: string | null = null, isPartitionMissing = false) {
    super(message)
    this.name = 'StatementError'
    this.sqlState = sqlState
    this.isPartitionMissing = isPartitionMissing
  }
}

/** The model has to be taught a statement: an error of the simulator, which no process may take for one of the database. */
export class UntaughtStatement extends Error {}
