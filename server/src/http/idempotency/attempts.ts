/** Requests that must be carried out once: who works on a key, and what was answered. */

import { createHash } from 'node:crypto'
import type { Database, Participant, Transaction } from '../../infra/postgres/database.ts'
import type { SealingKey } from '../../lib/dataKeys.ts'
import { type RandomBytes, uuidV7 } from '../../lib/ids.ts'
import type { Log } from '../../lib/log.ts'
import { type Clock, SECOND_MS, within } from '../../lib/time.ts'
import { ANSWER_KEPT_MS, type KeptAnswer, type KeyOwner, type ReplayedAnswer } from './answer.ts'
import type { KeptBodies } from './keptBodies.ts'
import type { KeptQuota } from './quota.ts'
import type { KeptSpace } from './space.ts'
import {
  type AttemptRow,
  dropAnswer,
  findAttempt,
  freeKey,
  insertAttempt,
  keepAnswer,
  type NewAttempt,
  replaceAttempt,
} from './store.ts'

/** A key that is freed and taken again in between is looked at so often; then its request is told to wait. */
const LOOKS = 3

const IN_PROGRESS: Begun = { kind: 'inProgress' }

/** So long an answer waits until its key is free, for a client that asks again at once; then it is freed behind the answer. */
const FREEING_MS = 2 * SECOND_MS

export interface AttemptsDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  readonly log: Log
  /** This process's slot, which changes where it was lost: its attempts live while it holds the slot's lock. */
  readonly slot: () => number
  /** Returns whether nobody owns a slot; stays so until the end of the transaction. */
  readonly isAbandoned: (tx: Transaction, slot: number) => Promise<boolean>
  /** Encrypts, stores and reads bodies. */
  readonly bodies: KeptBodies
  /** The quota of kept answers of each organization. */
  readonly quota: KeptQuota
  /** The space in the store of large answers; while it is short, none is kept. */
  readonly space: Pick<KeptSpace, 'isShort'>
  /** Told for metrics what a request with a key met, such as `begun`, `replay` or `mismatch`. */
  readonly onAsked?: (kind: Begun['kind']) => void
}

/** An attempt under way, of this process. */
export interface Attempt {
  /** Names it for ever, as its kept answer. */
  readonly id: string
  /**
   * Prepares an answer to be kept. The participants join the transaction of the answer's effect; once they have committed, the
   * answer is given again for 24 h, whatever becomes of this process. They say false where another has taken the key over:
   * the effect must not be committed then, since it is the other's to have. Never rejects.
   */
  keep(answer: KeptAnswer): Promise<readonly Participant[]>
  /** Keeps an answer whose effect needs no transaction. Rejects while the database can't be asked; it is not kept then. */
  keepNow(answer: KeptAnswer): Promise<void>
  /** True when an answer was prepared. */
  readonly isKept: boolean
  /** Says that the effect of the prepared answer was withdrawn: nothing is kept. */
  discard(): void
  /** Says that it is not known yet whether the prepared answer is committed. The key stays in progress until `known` resolves. */
  awaitOutcome(known: Promise<unknown>): void
  /**
   * It is over: frees the key unless an answer was kept. Waits for that, two seconds at most, and not at all for an outcome
   * that is not known. May be called again; never rejects.
   */
  end(): Promise<void>
}

export type Begun =
  | { readonly kind: 'begun'; readonly attempt: Attempt }
  | { readonly kind: 'replay'; readonly answer: ReplayedAnswer }
  | { readonly kind: 'inProgress' }
  /** The key was used for another request. */
  | { readonly kind: 'mismatch' }
  /** Its answer could not be kept: the quota of the organization is used up, or the store is short. */
  | { readonly kind: 'noRoom' }

export interface Attempts {
  /**
   * Takes a key for a request, or says why not. `isRequired`: the request must have a key, so that its answer is kept whatever
   * room there is. Rejects while the database can't be asked.
   */
  begin(owner: KeyOwner, idempotencyKey: string, fingerprint: Uint8Array, isRequired?: boolean): Promise<Begun>
  /** Ids of the attempts of this process that are under way. */
  living(): readonly string[]
}

export function createAttempts(dependencies: AttemptsDependencies): Attempts {
  const { database, clock, random, slot, isAbandoned, bodies, quota, space } = dependencies
  // As many as there are requests open.
  const living = new Set<string>()

  /** Takes over an attempt that has no answer for another request. False: somebody works on it. */
  const takeOver = async (row: AttemptRow, next: NewAttempt): Promise<boolean> => {
    // One that began under a slot that was lost since, and is not adopted yet, lives too.
    if (living.has(row.attempt)) return false
    if (row.slot === slot()) return replaceAttempt(database, row.attempt, next)
    return database.transaction(
      async (tx) => (await isAbandoned(tx, row.slot)) && replaceAttempt(tx, row.attempt, next),
    )
  }

  /**
   * Returns the answer to another request with the key of this attempt; null: the attempt is gone, or has come free.
   */
  const answerFor = async (row: AttemptRow, next: NewAttempt): Promise<Begun | null> => {
    if (row.is_expired) {
      await dropAnswer(database, row.attempt, next.nowMs)
      return null
    }
    if (row.status === null) return (await takeOver(row, next)) ? { kind: 'begun', attempt: open(next) } : IN_PROGRESS
    if (!Buffer.from(row.fingerprint).equals(next.fingerprint)) return { kind: 'mismatch' }
    const { status, content_type: contentType, operation_id: operationId } = row
    return { kind: 'replay', answer: { status, contentType, operationId, body: await bodies.open(row) } }
  }

  const look = async (next: NewAttempt, mayBegin: boolean): Promise<Begun> => {
    for (let looks = 0; looks < LOOKS; looks += 1) {
      if (mayBegin && (await insertAttempt(database, next))) return { kind: 'begun', attempt: open(next) }
      const row = await findAttempt(database, next, next.nowMs, bodies.bytesInMemory)
      const answer = row && (await answerFor(row, next))
      if (answer !== null) return answer
      if (!mayBegin) return { kind: 'noRoom' }
    }
    return IN_PROGRESS
  }

  const hasRoom = async (organizationId: string): Promise<boolean> => {
    if (space.isShort) return false
    const full = quota.isFull(organizationId)
    return !(full instanceof Promise ? await full : full)
  }

  const open = (own: NewAttempt) => openAttempt(dependencies, own, () => living.delete(own.attempt))

  return {
    async begin({ id: keyId, organizationId }, idempotencyKey, fingerprint, isRequired = false) {
      const nowMs = clock.now()
      const attempt = uuidV7(nowMs, random)
      const keyHash = new Uint8Array(createHash('sha256').update(idempotencyKey).digest())
      // Before its row is there: whoever sweeps in between must not take it for abandoned.
      living.add(attempt)
      let begun: Begun | null = null
      try {
        const expiresAtMs = nowMs + ANSWER_KEPT_MS
        const mayBegin = isRequired || (await hasRoom(organizationId))
        const next = { keyId, organizationId, keyHash, fingerprint, attempt, slot: slot(), nowMs, expiresAtMs }
        begun = await look(next, mayBegin)
        dependencies.onAsked?.(begun.kind)
        return begun
      } finally {
        if (begun?.kind !== 'begun') living.delete(attempt)
      }
    },
    living: () => [...living],
  }
}

function openAttempt(
  { database, clock, log, bodies, quota }: AttemptsDependencies,
  own: NewAttempt,
  onEnded: () => void,
): Attempt {
  const { attempt, organizationId } = own
  let kept = false
  let key: SealingKey | null = null
  let outcome: Promise<unknown> | null = null
  let ended: Promise<void> | null = null

  const free = async () => {
    try {
      if (!kept) await freeKey(database, own, attempt)
    } catch (error) {
      // The sweep of this process frees it, or whoever asks next.
      log.warn({ err: error }, 'an idempotency key could not be freed yet')
    } finally {
      key?.done()
      onEnded()
    }
  }
  const keep = async (answer: KeptAnswer): Promise<readonly Participant[]> => {
    kept = true
    const { byteLength: bodyBytes } = answer.body
    key ??= bodies.takeKey()
    const body = await bodies.keep(attempt, answer.body, key)
    const dataKey = key.number
    quota.add(organizationId, bodyBytes)
    return [(tx) => keepAnswer(tx, own, { ...answer, body, bodyBytes, dataKey })]
  }
  return {
    id: attempt,
    keep,
    async keepNow(answer) {
      const participants = await keep(answer)
      try {
        await database.transaction(async (tx) => {
          for (const participant of participants) await participant(tx)
        })
      } catch (error) {
        kept = false
        throw error
      }
    },
    get isKept() {
      return kept
    },
    discard() {
      kept = false
    },
    awaitOutcome(known) {
      outcome = known
    },
    end() {
      if (ended !== null) return ended
      if (outcome === null) ended = within(clock, FREEING_MS, free(), undefined)
      else {
        void outcome.then(free)
        ended = Promise.resolve()
      }
      return ended
    },
  }
}
