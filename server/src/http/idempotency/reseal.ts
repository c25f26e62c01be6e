import type { RandomBytes } from '../../lib/ids.ts'
import { seal, unseal } from '../../lib/seal.ts'
import type { SealedKind } from '../dataKeys/reseal.ts'
import { PIECE_BYTES } from './answer.ts'
import { sealedBytesOf, thingOf } from './sealedBody.ts'
import { listSealedAnswers, putSealedAnswer } from './store.ts'

/**
 * Kept answers of one piece, which are in their rows. Larger ones are not sealed anew: they expire 24 hours after their request,
 * and the key that they are sealed with stays until then.
 */
export function sealedAnswers(random: RandomBytes): SealedKind {
  return {
    name: 'kept answers',
    async read(database, number, after, atMost) {
      const rows = await listSealedAnswers(database, number, after, sealedBytesOf(PIECE_BYTES), atMost)
      return rows.map(({ attempt, data_key: own, body, body_bytes }) => {
        const thing = thingOf(attempt, Number(body_bytes), 0)
        return {
          place: attempt,
          number: own,
          reseal: (from, to) => seal(to, thing, unseal(from, thing, body), random),
          put: (tx, sealed, next) => putSealedAnswer(tx, attempt, own, sealed, next),
        }
      })
    },
  }
}
