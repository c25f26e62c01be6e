/** The verification and the retention of days beside chat, as another process of the gateway does them in the background. */

import { systemClock } from '../../src/infra/clock.ts'
import { sleep } from '../../src/lib/time.ts'
import { type Beside, besideChat, middleOf, reportBeside } from './beside.ts'
import { disagreementsOfDay } from './disagreements.ts'
import { dropOneDay } from './retention.ts'
import type { Scale } from './scale.ts'
import type { Side } from './side.ts'
import { dayOf } from './verification.ts'

/** The pause between pages of the background verification. */
const PAUSE_MS = 10
const BETWEEN_DROPS_MS = 1_000
/** A round drops up to ten days of the small database, which has sixty. */
const ROUNDS_MOST = 4

export async function measureBooksBesideChat(scale: Scale): Promise<void> {
  const verifying = (side: Side) => async (isOver: () => boolean) => {
    while (!isOver()) await disagreementsOfDay(side.database, dayOf(side), () => sleep(systemClock, PAUSE_MS))
  }
  await measureBoth(scale, 'verification', verifying)
  const dropped = new Map<string, number>()
  let failed = 0
  const dropping = (side: Side) => async (isOver: () => boolean) => {
    while (!isOver()) {
      // A drop gives way to readers of charges, and is made again.
      const day = await dropOneDay(side).catch(() => 'failed')
      if (day === null) break
      if (day === 'failed') failed += 1
      else dropped.set(side.name, (dropped.get(side.name) ?? 0) + 1)
      await Bun.sleep(BETWEEN_DROPS_MS)
    }
  }
  await measureBoth(scale, 'retention', dropping)
  const counts = scale.sides.map(({ name }) => dropped.get(name) ?? 0)
  scale.table.note(
    `retention beside chat: ${counts.join(' and ')} days dropped; ${failed} drops gave way and were made again`,
  )
  scale.table.note(
    'verification and retention ran in the process of the bench, so this is what they cost through the database alone',
  )
}

async function measureBoth(
  scale: Scale,
  name: string,
  work: (side: Side) => (isOver: () => boolean) => Promise<void>,
): Promise<void> {
  const [small, large] = scale.sides
  const rounds: [Beside[], Beside[]] = [[], []]
  for (let round = 0; round < Math.min(scale.rounds, ROUNDS_MOST); round += 1) {
    rounds[0].push(await besideChat(scale, small, work(small)))
    rounds[1].push(await besideChat(scale, large, work(large)))
  }
  reportBeside(scale, name, [
    middleOf(scale, `${name} (small)`, rounds[0]),
    middleOf(scale, `${name} (large)`, rounds[1]),
  ])
}
