import type { WriterErrors } from '../../src/billing/charges/writer.ts'
import { faultOf } from '../../src/infra/postgres/faults.ts'
import { type DatabaseFault, faultOfState, LOST } from '../../src/infra/postgres/sqlStates.ts'
import { StatementError } from './model/errors.ts'

/** The writer's view of errors, as `billing/open.ts` gives it, for those of the model and of a server. */
export const WRITER_ERRORS: WriterErrors = {
  isRefusedData: (error) => faultOfAny(error)?.mayTryAgain === false,
  isNothingDone: (error) => faultOfAny(error)?.outcome === 'not_done',
}

function faultOfAny(error: unknown): DatabaseFault | null {
  if (!(error instanceof StatementError)) return faultOf(error)
  const { sqlState, isPartitionMissing } = error
  if (sqlState === null) return LOST
  return isPartitionMissing ? { ...faultOfState(sqlState), mayTryAgain: true } : faultOfState(sqlState)
}
