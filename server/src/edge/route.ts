import type { DescribedRoute } from './describe.ts'
import type { Prepare } from './onceForKey.ts'
import type { Handle, Requirements } from './pipeline.ts'

interface ReadingRoute extends DescribedRoute {
  readonly method: 'GET' | 'PUT'
  readonly needs: Requirements
  readonly handle: Handle
}

/** Carried out once for each Idempotency-Key. */
interface DoingRoute extends DescribedRoute {
  readonly method: 'POST' | 'PATCH' | 'DELETE'
  readonly needs: Requirements
  readonly prepare: Prepare
}

/** An entry of the table of contents: what a request must bring, who answers it, and what the description says of it. */
export type Route = ReadingRoute | DoingRoute
