/** Many other organizations that have just called when a gateway dies: it holds a share of each one's money then. */

import type { Database } from '../../src/infra/postgres/database.ts'
import { mapAtMost } from '../../src/lib/mapAtMost.ts'
import { makeCustomer, type TestKey } from '../customer.ts'
import { makeCall } from './caller.ts'
import { FIRST_NUMBER } from './countingProvider.ts'

/** Customers that are made, and calls that are open, at the same time. */
const AT_ONCE = 64
/** Beyond the numbers of planned calls. */
const CROWD_NUMBER = FIRST_NUMBER + 1_000_000

export interface Crowd {
  /** Each of them makes one call. Resolves when each has an answer or none comes. */
  callAll(url: string): Promise<void>
  /** All that is wrong with their books so far, a line each. */
  audit(database: Database): Promise<string[]>
}

/** The calls of one organization so far. */
interface Member extends TestKey {
  /** Of its calls, which are all alike. */
  readonly number: number
  whole: number
  /** Neither answered whole nor refused: they may be charged. */
  unknown: number
}

/** Makes so many organizations, each with $25. */
export async function makeCrowd(database: Database, size: number): Promise<Crowd> {
  const numbers = Array.from({ length: size }, (_, index) => CROWD_NUMBER + index)
  const members = await mapAtMost(numbers, AT_ONCE, async (number): Promise<Member> => {
    return { ...(await makeCustomer(database)), number, whole: 0, unknown: 0 }
  })
  return {
    async callAll(url) {
      await mapAtMost(members, AT_ONCE, async (member) => {
        const call = { number: member.number, model: 'answers', stream: false, tokens: 1, hangsUpAfter: null } as const
        const { whole, code } = await makeCall(url, member.key, call)
        if (whole) member.whole += 1
        else if (code === null) member.unknown += 1
      })
    },
    async audit(database) {
      const rows = await database.query<{ id: string; charges: bigint }>(
        'select organization_id as id, count(*) as charges from charges group by 1',
      )
      const charges = new Map(rows.map((row) => [row.id, Number(row.charges)]))
      return members.flatMap(({ organizationId, whole, unknown }) => {
        const count = charges.get(organizationId) ?? 0
        if (count >= whole && count <= whole + unknown) return []
        return [`of the crowd, ${organizationId} has ${whole} whole answers, ${unknown} cut off and ${count} charges`]
      })
    },
  }
}
