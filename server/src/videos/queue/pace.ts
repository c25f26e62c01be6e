/** When a model's jobs may be started: not for a while after no provider would take one. */

import type { Transaction } from '../../infra/postgres/database.ts'
import { doubledMs } from '../../lib/backoff.ts'
import { SECOND_MS } from '../../lib/time.ts'
import type { VideoDependencies } from '../job/dependencies.ts'
import { noteRefused, noteTaken, openQueue, readFailures } from './store.ts'

/** After nobody would take a job; doubled each time. */
const REFUSED_FIRST_MS = SECOND_MS
const REFUSED_LONGEST_MS = 30 * SECOND_MS

/** Makes sure that jobs of a model can have their turn. Within the transaction that accepts one. */
export function enterQueue(tx: Transaction, model: string): Promise<void> {
  return openQueue(tx, model)
}

/** Nobody would take a job of the model. */
export async function slowDown({ database, clock }: VideoDependencies, model: string): Promise<void> {
  const failures = await readFailures(database, model)
  const waitMs = doubledMs(REFUSED_FIRST_MS, REFUSED_LONGEST_MS, failures)
  await noteRefused(database, model, clock.now() + waitMs)
}

/** Somebody took one. */
export function speedUp({ database }: VideoDependencies, model: string): Promise<void> {
  return noteTaken(database, model)
}
