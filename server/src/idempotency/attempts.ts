/** Requests that must be carried out once: who works on a key, and what was answered. */

import { createHash } from 'node:crypto'
import { type Artifacts, readWholeArtifact } from '../io/artifacts.ts'
import type { Database, Rider, Transaction } from '../io/postgres/database.ts'
import { type RandomBytes, uuidV7 } from '../kernel/ids.ts'
import type { Log } from '../kernel/log.ts'
import { type SealedThing, seal, unseal } from '../kernel/seal.ts'
import type { Clock } from '../kernel/time.ts'
import { IN_ROW_BYTES, KEPT_MS, type KeptAnswer, type KeyScope } from './answer.ts'
import {
  type AttemptRow,
  findAttempt,
  freeKey,
  insertAttempt,
  keepAnswer,
  type NewAttempt,
  replaceAttempt,
} from './store.ts'

/** A key that is freed and taken again in between is looked at so often; then its request is told to wait. */
const LOOKS = 3

export interface AttemptsDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  readonly log: Log
  /** This process's slot: its attempts live while it holds the slot's lock. */
  readonly slot: number
  /** Whether nobody owns a slot; stays so until the end of the transaction. */
  readonly isAbandoned: (tx: Transaction, slot: number) => Promise<boolean>
  readonly dataKey: Uint8Array
  /** Bodies that are too large for a row, encrypted too. */
  readonly artifacts: Artifacts
  /** What became of a request with a key, for metrics. */
  readonly onAsked?: (kind: Begun['kind']) => void
}

/** An attempt under way, of this process. */
export interface Attempt {
  /** Names it for ever, as its kept answer. */
  readonly id: string
  /**
   * Prepares an answer to be kept. The riders join the transaction of the answer's effect; once they have committed, the
   * answer is given again for 24 h, whatever becomes of this process. They say false where another has taken the key over:
   * the effect must not be committed then, since it is the other's to have. Never rejects.
   */
  keep(answer: KeptAnswer): Promise<readonly Rider[]>
  /** Keeps an answer whose effect needs no transaction. Rejects while the database can't be asked; it is not kept then. */
  keepNow(answer: KeptAnswer): Promise<void>
  /** Whether an answer was prepared. */
  readonly isKept: boolean
  /** It is over: frees the key unless an answer was kept. May be called again; never rejects. */
  end(): Promise<void>
}

export type Begun =
  | { readonly kind: 'begun'; readonly attempt: Attempt }
  | { readonly kind: 'replay'; readonly answer: KeptAnswer }
  | { readonly kind: 'inProgress' }
  /** The key was used for another request. */
  | { readonly kind: 'mismatch' }

export interface Attempts {
  /** Takes a key for a request, or says why not. Rejects while the database can't be asked. */
  begin(keyId: string, idempotencyKey: string, fingerprint: Uint8Array): Promise<Begun>
  /** Ids of the attempts of this process that are under way. */
  living(): readonly string[]
}

export function createAttempts(dependencies: AttemptsDependencies): Attempts {
  const { database, clock, random, slot, isAbandoned } = dependencies
  // As many as there are requests open.
  const living = new Set<string>()

  /** Whether nobody works on an attempt that has no answer. */
  const takeOver = async (row: AttemptRow, next: NewAttempt): Promise<boolean> => {
    if (row.slot === slot) return !living.has(row.attempt) && replaceAttempt(database, row.attempt, next)
    return database.transaction(
      async (tx) => (await isAbandoned(tx, row.slot)) && replaceAttempt(tx, row.attempt, next),
    )
  }

  const look = async (next: NewAttempt): Promise<Begun> => {
    for (let looks = 0; looks < LOOKS; looks += 1) {
      if (await insertAttempt(database, next)) return { kind: 'begun', attempt: open(next) }
      const row = await findAttempt(database, next)
      if (row === null) continue
      if (row.status !== null) {
        if (!Buffer.from(row.fingerprint).equals(next.fingerprint)) return { kind: 'mismatch' }
        return { kind: 'replay', answer: await readAnswer(dependencies, row, row.status) }
      }
      if (await takeOver(row, next)) return { kind: 'begun', attempt: open(next) }
      return { kind: 'inProgress' }
    }
    return { kind: 'inProgress' }
  }

  const open = (own: NewAttempt) => openAttempt(dependencies, own, () => living.delete(own.attempt))

  return {
    async begin(keyId, idempotencyKey, fingerprint) {
      const nowMs = clock.now()
      const attempt = uuidV7(nowMs, random)
      const keyHash = new Uint8Array(createHash('sha256').update(idempotencyKey).digest())
      // Before its row is there: whoever sweeps in between must not take it for abandoned.
      living.add(attempt)
      let begun: Begun | null = null
      try {
        begun = await look({ keyId, keyHash, fingerprint, attempt, slot, nowMs, expiresAtMs: nowMs + KEPT_MS })
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
  { database, random, log, dataKey, artifacts }: AttemptsDependencies,
  { attempt, keyId, keyHash }: NewAttempt,
  onEnded: () => void,
): Attempt {
  const scope: KeyScope = { keyId, keyHash }
  let kept = false
  let ended: Promise<void> | null = null

  const free = async () => {
    try {
      if (!kept) await freeKey(database, scope, attempt)
    } catch (error) {
      // The sweep of this process frees it, or whoever asks next.
      log.warn({ err: error }, 'an idempotency key could not be freed yet')
    } finally {
      onEnded()
    }
  }
  /** Whether the body is in a file now. A disk or store that takes none leaves it to the database. */
  const file = async (sealed: Uint8Array): Promise<boolean> => {
    if (sealed.byteLength <= IN_ROW_BYTES) return false
    try {
      await artifacts.write(attempt, inOnePiece(sealed), sealed.byteLength)
      return true
    } catch (error) {
      log.warn({ err: error }, 'an answer could not be kept as a file; the database keeps it')
      return false
    }
  }
  const keep = async (answer: KeptAnswer): Promise<readonly Rider[]> => {
    kept = true
    const sealed = seal(dataKey, answerOf(attempt), answer.body, random)
    const body = (await file(sealed)) ? null : sealed
    return [(tx) => keepAnswer(tx, scope, attempt, { ...answer, body })]
  }
  return {
    id: attempt,
    keep,
    async keepNow(answer) {
      const riders = await keep(answer)
      try {
        await database.transaction(async (tx) => {
          for (const ride of riders) await ride(tx)
        })
      } catch (error) {
        kept = false
        throw error
      }
    },
    get isKept() {
      return kept
    },
    end() {
      ended ??= free()
      return ended
    },
  }
}

const answerOf = (attempt: string): SealedThing => ({ kind: 'tollgate kept answer', name: attempt })

async function readAnswer(
  { dataKey, artifacts }: AttemptsDependencies,
  row: AttemptRow,
  status: number,
): Promise<KeptAnswer> {
  const sealed = row.body ?? (await readWholeArtifact(artifacts, row.attempt))
  if (sealed === null) {
    throw new Error(
      `the kept answer ${row.attempt} is not among the artifacts: do all machines keep them in one place?`,
    )
  }
  const body = unseal(dataKey, answerOf(row.attempt), sealed)
  return { status, contentType: row.content_type, operationId: row.operation_id, body }
}

async function* inOnePiece(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}
