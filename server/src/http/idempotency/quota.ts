/** The quota of each organization's kept answers (D6). */

import type { Queryable } from '../../infra/postgres/database.ts'
import { MICROCENTS_PER_DOLLAR } from '../../lib/money.ts'
import { createRecent } from '../../lib/recent.ts'
import { type Clock, DAY_MS, SECOND_MS } from '../../lib/time.ts'
import { ROW_BYTES, readKeptBytes } from './store.ts'

/** How many organizations' figures a process remembers, and for how long. Other processes may keep more in the meantime. */
const REMEMBERED_ORGANIZATIONS = 10_000
const REMEMBERED_MS = 5 * SECOND_MS

/** The bytes of kept answers that an organization may have. */
export interface QuotaSettings {
  /** In any case. */
  readonly bytes: number
  /** In addition for each dollar charged in the last 24 hours. */
  readonly bytesPerDollar: number
}

export interface QuotaDependencies {
  readonly database: Queryable
  readonly clock: Clock
  readonly quota: QuotaSettings
  /** Returns how many micro-cents an organization was charged since an instant (milliseconds since the epoch). */
  readonly chargedMicrocents: (database: Queryable, organizationId: string, sinceMs: number) => Promise<bigint>
}

export interface KeptQuota {
  /**
   * Returns whether an organization may keep nothing more. At once where its figures are in memory; rejects while the
   * database is away.
   */
  isFull(organizationId: string): boolean | Promise<boolean>
  /** Counts the body of an answer that this process keeps, until the figures are read again. */
  add(organizationId: string, bodyBytes: number): void
}

interface Figures {
  keptBytes: number
  readonly bytesMost: number
  readonly readAtMs: number
}

export function createKeptQuota({ database, clock, quota, chargedMicrocents }: QuotaDependencies): KeptQuota {
  const remembered = createRecent<Figures>(REMEMBERED_ORGANIZATIONS)
  const isUsedUp = ({ keptBytes, bytesMost }: Figures) => keptBytes >= bytesMost

  const read = async (organizationId: string): Promise<boolean> => {
    const readAtMs = clock.monotonicMs()
    const keptBytes = await readKeptBytes(database, organizationId)
    let bytesMost = quota.bytes
    // Only who keeps much has its charges added up.
    if (keptBytes >= bytesMost) {
      const charged = await chargedMicrocents(database, organizationId, clock.now() - DAY_MS)
      bytesMost += (Number(charged) / Number(MICROCENTS_PER_DOLLAR)) * quota.bytesPerDollar
    }
    const figures = { keptBytes, bytesMost, readAtMs }
    remembered.set(organizationId, figures)
    return isUsedUp(figures)
  }

  return {
    isFull(organizationId) {
      const figures = remembered.get(organizationId)
      const isFresh = figures !== undefined && clock.monotonicMs() - figures.readAtMs < REMEMBERED_MS
      // More charges may allow more than is remembered: before a refusal the figures are those of now.
      if (isFresh && (!isUsedUp(figures) || figures.bytesMost > quota.bytes)) return isUsedUp(figures)
      return read(organizationId)
    },
    add(organizationId, bodyBytes) {
      const figures = remembered.get(organizationId)
      if (figures !== undefined) figures.keptBytes += bodyBytes + ROW_BYTES
    },
  }
}
