/** The rows that statements read: of the large database beside the small one. */

import { withClient } from '../../test/postgres.ts'
import { type Explained, readExplained, startExplaining, stopExplaining } from './explained.ts'
import { workForADay } from './gatewayWork.ts'
import type { Scale } from './scale.ts'
import { DATA_KEY, type Side } from './side.ts'

/** A statement whose most rows on the large database are beyond twice those on the small one, and so many more, is named. */
const MORE_ROWS = 100
const SHOWN_CHARACTERS = 100

/** One statement, carried out many times: the most that it read, and what it returned then. */
export interface StatementReads {
  readonly text: string
  readonly times: number
  readonly read: number
  readonly returned: number
  readonly scanned: readonly string[]
}

/** Adds up what each text did. */
export function readsByText(explained: readonly Explained[]): StatementReads[] {
  return [...Map.groupBy(explained, ({ text }) => text)].map(([text, each]) => {
    const most = each.reduce((a, b) => (b.read > a.read ? b : a))
    const scanned = [...new Set(each.flatMap((one) => one.scanned))].sort()
    return { text, times: each.length, read: most.read, returned: most.returned, scanned }
  })
}

export async function measureQueryPlans({ sides, table }: Scale): Promise<void> {
  const [small, large] = [await readsOf(sides[0]), await readsOf(sides[1])]
  const smallByText = new Map(small.map((each) => [each.text, each]))
  console.log('  statement | times | rows read, small | returned | rows read, large | returned')
  let grown = 0
  for (const { text, times, read, returned } of large.toSorted((a, b) => b.read - a.read)) {
    const before = smallByText.get(text)
    const isGrown = read > 2 * (before?.read ?? 0) + MORE_ROWS
    if (isGrown) grown += 1
    const cells = [text.slice(0, SHOWN_CHARACTERS), times, before?.read ?? '–', before?.returned ?? '–', read, returned]
    console.log(`  ${cells.join(' | ')}${isGrown ? ' | grown' : ''}`)
  }
  table.note(
    `query plans: ${large.length} different statements of a day, of which ${grown} read more rows on the large database`,
  )
}

async function readsOf(side: Side): Promise<StatementReads[]> {
  await side.stop()
  const { databaseUrl } = side
  const explained = await side.asSuperuser(async (superuser) => {
    await startExplaining(superuser, { seqScans: true })
    const before = (await readExplained(superuser)).length
    await withClient(databaseUrl, (database) =>
      workForADay({ databaseUrl, database, nowMs: Date.now(), dataKey: DATA_KEY }),
    )
    await stopExplaining(superuser)
    return (await readExplained(superuser)).slice(before)
  })
  await side.start()
  return readsByText(explained)
}
