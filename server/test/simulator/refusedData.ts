import { isPartitionMissing, sqlStateOf } from '../../src/infra/postgres/client.ts'
import { StatementError } from './model/errors.ts'

/** What `app/app.ts` tells the writer: that the database refuses the data itself. For errors of the model and of a server. */
export function isRefusedData(error: unknown): boolean {
  const isModels = error instanceof StatementError
  const state = isModels ? error.sqlState : sqlStateOf(error)
  const isMissing = isModels ? error.isPartitionMissing : isPartitionMissing(error)
  return /^(22|23)/.test(state ?? '') && !isMissing
}
