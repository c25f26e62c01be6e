import { jsonAnswer } from '../http/jsonAnswer.ts'
import type { Handle } from '../http/pipeline.ts'
import type { KeyOrSession } from '../http/principal.ts'
import type { Queryable } from '../infra/postgres/database.ts'
import { refusal } from '../lib/errors.ts'
import { findOwnOperation } from './find.ts'
import { operationToWire } from './wire.ts'

/** Another key's operations are no different from none. */
const NO_SUCH_OPERATION = refusal('not_found', 'This key has started no operation with this id.')

/** GET /operations/{id}. */
export function showOperation(database: Queryable): Handle<KeyOrSession> {
  return async (call) => {
    const operation = await findOwnOperation(database, call.principal, call.parameters[0])
    return operation === null ? NO_SUCH_OPERATION : jsonAnswer(operationToWire(operation))
  }
}
