import type { Database, Transaction } from '../../infra/postgres/database.ts'
import type { RandomBytes } from '../../lib/ids.ts'
import { seal, unseal } from '../../lib/seal.ts'
import { secretOf } from './create.ts'
import { listSealedSecrets, putSealedSecret } from './store.ts'

/** The secrets of endpoints, as values that are sealed anew when the data key rotates. */
export function sealedSecrets(random: RandomBytes) {
  return {
    name: 'webhook secrets',
    async read(database: Database, number: number, after: string | null, atMost: number) {
      const rows = await listSealedSecrets(database, number, after, atMost)
      return rows.map(({ id, data_key: own, secret }) => ({
        place: id,
        number: own,
        reseal: (from: Uint8Array, to: Uint8Array) =>
          seal(to, secretOf(id), unseal(from, secretOf(id), secret), random),
        put: (tx: Transaction, sealed: Uint8Array, next: number) => putSealedSecret(tx, id, own, sealed, next),
      }))
    },
  }
}
