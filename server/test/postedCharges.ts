/** Charges that are posted as a process posts them, at instants that a test chooses. */

import type { Charge } from '../src/billing/charges/charge.ts'
import { ensureChargePartition } from '../src/billing/charges/partitions/prepare.ts'
import { postCharges } from '../src/billing/charges/post.ts'
import type { Database } from '../src/infra/postgres/database.ts'
import { systemRandom } from '../src/infra/random.ts'
import { uuidV7 } from '../src/lib/ids.ts'
import type { TestKey } from './customer.ts'

/** No process of a test has it. */
const SLOT = 999

export interface PostedAt extends Partial<Charge> {
  readonly admittedAtMs: number
  /** Unless given, it is posted when it is admitted. */
  readonly postedAtMs?: number
}

/** Posts a charge of a key; its id and instant belong together, as those of every real charge. */
export async function postChargeOf(
  database: Database,
  { id: keyId, organizationId }: Pick<TestKey, 'id' | 'organizationId'>,
  { postedAtMs, ...more }: PostedAt,
): Promise<Charge> {
  const charge: Charge = {
    chargeId: uuidV7(more.admittedAtMs, systemRandom()),
    organizationId,
    keyId,
    model: 'svc/test',
    tier: 'serverless',
    priceHash: new Uint8Array(32),
    usage: { promptTokens: 3, cachedPromptTokens: 1, completionTokens: 2 },
    estimated: false,
    costMicrocents: 1_234_567n,
    target: 'mock/test',
    outcome: 'completed',
    ...more,
  }
  await ensureChargePartition(database, charge.admittedAtMs)
  await postCharges(database, SLOT, [charge], postedAtMs ?? charge.admittedAtMs)
  return charge
}
