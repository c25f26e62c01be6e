/** Attempts with keys, as `http/open.ts` puts them together, for tests of single processes. */

import type { KeptAnswer, ReplayedAnswer } from '../src/http/idempotency/answer.ts'
import { type Attempts, type AttemptsDependencies, createAttempts } from '../src/http/idempotency/attempts.ts'
import { createKeptBodies } from '../src/http/idempotency/keptBodies.ts'
import { createKeptQuota, type QuotaDependencies } from '../src/http/idempotency/quota.ts'
import { createKeptSpace, type KeptSpace } from '../src/http/idempotency/space.ts'
import { createTurns, type ReplayDependencies } from '../src/http/replay.ts'
import { createReplayMemory } from '../src/http/replayMemory.ts'
import type { Artifacts } from '../src/infra/artifacts.ts'
import { ByteBudget } from '../src/lib/byteBudget.ts'
import type { DataKeys } from '../src/lib/dataKeys.ts'
import type { Clock } from '../src/lib/time.ts'
import { oneDataKey } from './oneDataKey.ts'
import { SILENCE } from './silence.ts'

/** A store that holds nothing and takes nothing. */
const NO_FILES: Artifacts = {
  write: () => Promise.reject(new Error('no file is asked for')),
  size: () => Promise.resolve(null),
  read: () => Promise.resolve(null),
  remove: () => Promise.resolve(),
  async *list() {},
}

interface KeptParts
  extends Pick<AttemptsDependencies, 'database' | 'clock' | 'random' | 'slot'>,
    Partial<Pick<AttemptsDependencies, 'isAbandoned'>>,
    Partial<Pick<QuotaDependencies, 'quota' | 'chargedMicrocents'>> {
  readonly dataKey?: Uint8Array
  /** In place of the one key. */
  readonly dataKeys?: DataKeys
  readonly artifacts?: Artifacts
}

/** Opens the attempts of a process; without a quota there is plenty. */
export function openAttempts(parts: KeptParts): Attempts & { readonly space: KeptSpace } {
  const artifacts = parts.artifacts ?? NO_FILES
  const space = createKeptSpace(artifacts, SILENCE)
  const attempts = createAttempts({
    isAbandoned: () => Promise.resolve(false),
    log: SILENCE,
    ...parts,
    space,
    bodies: createKeptBodies({
      dataKeys: oneDataKey(parts.dataKey ?? parts.random(32)),
      ...parts,
      artifacts,
      space,
      log: SILENCE,
    }),
    quota: createKeptQuota({
      quota: { bytes: 2 ** 40, bytesPerDollar: 0 },
      chargedMicrocents: () => Promise.resolve(0n),
      ...parts,
    }),
  })
  return { ...attempts, space }
}

/** The way in which kept answers leave again. */
export function replaysWith(clock: Clock, memoryBytes = 256 << 20): ReplayDependencies {
  const memory = createReplayMemory(new ByteBudget(memoryBytes, 0, memoryBytes))
  return { clock, log: SILENCE, memory, turn: createTurns(() => new Promise((resolve) => setImmediate(resolve))) }
}

/** Returns a kept answer with all of its body. */
export async function wholeOf(answer: ReplayedAnswer): Promise<KeptAnswer & { readonly body: Uint8Array }> {
  const { body } = answer
  if (body instanceof Uint8Array) return { ...answer, body }
  const pieces: Uint8Array[] = []
  for (let index = 0; index < body.pieces; index += 1) pieces.push(await body.read(index))
  return { ...answer, body: new Uint8Array(Buffer.concat(pieces)) }
}
