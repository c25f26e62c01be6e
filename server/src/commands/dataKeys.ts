import { resealAll, type SealedKind } from '../http/dataKeys/reseal.ts'
import { ringSource } from '../http/dataKeys/ring.ts'
import {
  activateKey,
  dropKeys,
  offerKey,
  type RotationDependencies,
  type WaitingFor,
  waitingToSeal,
} from '../http/dataKeys/rotate.ts'
import { listDataKeys } from '../http/dataKeys/store.ts'
import { sealedAnswers } from '../http/idempotency/reseal.ts'
import { isAnswerSealedWith } from '../http/idempotency/store.ts'
import { SECOND_MS, sleep } from '../lib/time.ts'
import { OwnersTime } from '../processes/ownersTime.ts'
import { isSlotAbandoned } from '../processes/slot.ts'
import { sealedSecrets } from '../webhooks/endpoints/reseal.ts'
import { isSecretSealedWith } from '../webhooks/endpoints/store.ts'
import { CONFIG_OPTION, type Command, CommandFailure, DATA_DIR_OPTION } from './command.ts'
import type { CommandContext } from './context.ts'
import { configOf, withDatabase } from './environment.ts'

/**
 * Longer than a process takes to hear of a key without a notification, and than the minute after a start of the database in which
 * nobody counts as dead.
 */
const PATIENCE_MS = 90 * SECOND_MS
const POLL_MS = SECOND_MS / 4

/** `tollgate data-key rotate` */
export const rotateDataKeyCommand: Command = {
  words: ['data-key', 'rotate'],
  summary: 'Bring a new data key into use and seal everything anew with it; goes on where it was broken off',
  options: [DATA_DIR_OPTION, CONFIG_OPTION],
  examples: ['tollgate data-key rotate'],
  run: async (invocation, context) => {
    const { dataDirectory, dataKey } = await configOf(invocation, context)
    const { randomBytes: random } = context
    return withDatabase(invocation, context, async (database, clock) => {
      const ring = ringSource({ dataDirectory, given: dataKey, random })
      const ownersTime = new OwnersTime(clock)
      await ownersTime.isOver(database)
      const rotation: RotationDependencies = {
        database,
        clock,
        ring,
        isAbandoned: (tx, slot) => isSlotAbandoned(tx, slot, ownersTime),
        isSealedWith: [isAnswerSealedWith, isSecretSealedWith],
      }
      const { number, fingerprint } = await offerKey(rotation)
      const name = `the data key with the fingerprint ${fingerprint.slice(0, 8)}`
      await untilNobody(context, () => activateKey(rotation), `do not have ${name}; give it to them`)
      await untilNobody(context, () => waitingToSeal(rotation), `still seal with an older key than ${name}`)
      const rows = await listDataKeys(database)
      const given = await ring.read()
      const keys = new Map(rows.flatMap((row) => [[row.number, given.get(row.fingerprint)] as const]))
      const sealed = await resealKinds(rotation, keysOf(keys), number, random)
      const left = await dropKeys(rotation)
      const json = { fingerprint: fingerprint.slice(0, 8), ...sealed, keys_left: left.length }
      return { json, text: describe(fingerprint, sealed, left.length, ring.remove === undefined) }
    })
  },
}

interface SealedAnew {
  readonly sealed_anew: number
  readonly not_opened: number
}

async function resealKinds(
  { database }: RotationDependencies,
  keys: ReadonlyMap<number, Uint8Array>,
  number: number,
  random: CommandContext['randomBytes'],
): Promise<SealedAnew> {
  const kinds: readonly SealedKind[] = [sealedSecrets(random), sealedAnswers(random)]
  const sum = { sealed_anew: 0, not_opened: 0 }
  for (const kind of kinds) {
    const { resealed, unopened } = await resealAll(database, kind, keys, number)
    sum.sealed_anew += resealed
    sum.not_opened += unopened
  }
  return sum
}

function keysOf(given: ReadonlyMap<number, Uint8Array | undefined>): ReadonlyMap<number, Uint8Array> {
  return new Map([...given].flatMap(([number, key]) => (key === undefined ? [] : [[number, key] as const])))
}

/** Waits until no process keeps a step from being taken; throws a sentence that names those that do. */
async function untilNobody(
  { clock }: CommandContext,
  takeStep: () => Promise<WaitingFor>,
  trouble: string,
): Promise<void> {
  const giveUpAtMs = clock.monotonicMs() + PATIENCE_MS
  for (;;) {
    const waiting = await takeStep()
    if (waiting.length === 0) return
    if (clock.monotonicMs() >= giveUpAtMs) {
      const slots = waiting.join(', ')
      throw new CommandFailure(
        `the gateway processes in the slots ${slots} ${trouble}, or stop them, and run this again`,
      )
    }
    await sleep(clock, POLL_MS)
  }
}

function describe(fingerprint: string, sealed: SealedAnew, left: number, isGiven: boolean): string {
  const lines = [
    `New values are sealed with the data key with the fingerprint ${fingerprint.slice(0, 8)}.`,
    `Sealed anew: ${sealed.sealed_anew} kept answers and webhook secrets.`,
  ]
  if (sealed.not_opened > 0) lines.push(`Not opened with any of the keys, and left as they are: ${sealed.not_opened}.`)
  if (left > 0) {
    lines.push(
      'The former key is still needed: large kept answers expire within 24 hours, and a running server drops it then.',
    )
  } else lines.push('The former key is dropped. Backups that were made before still need it.')
  if (isGiven) lines.push(`Remove it from TOLLGATE_DATA_KEY ${left > 0 ? 'then' : 'now'}, for every process.`)
  return `${lines.join('\n')}\n`
}
