/** The reload of a settings file of few and of many models beside chat. */

import { type Beside, besideChat, middleOf, reportBeside } from './beside.ts'
import { keyOfOrganization } from './books.ts'
import type { Scale } from './scale.ts'
import type { Side } from './side.ts'

const FEW = 5
const MANY = 1_995
/** The models of the bench, which every file has. */
const CALLED = 5
const BETWEEN_RELOADS_MS = 2_000
/** A reload that takes longer than this is none. */
const RELOAD_LIMIT_MS = 30_000
const POLL_MS = 50

/** The columns stand for the numbers of models here; both are measured at the large database. */
export async function measureReload(scale: Scale): Promise<void> {
  const [, large] = scale.sides
  const rounds: Record<number, Beside[]> = { [FEW]: [], [MANY]: [] }
  for (let round = 0; round < scale.rounds; round += 1) {
    for (const moreModels of [FEW, MANY])
      rounds[moreModels]?.push(await reloadBesideChat(scale, large, moreModels, round))
  }
  const middle = (moreModels: number) =>
    middleOf(scale, `reloads of ${moreModels + CALLED} models`, rounds[moreModels] ?? [])
  const name = `reloads of ${FEW + CALLED} (small) and ${MANY + CALLED} models (large)`
  reportBeside(scale, name, [middle(FEW), middle(MANY)])
  await large.stop()
  await large.start()
}

async function reloadBesideChat(scale: Scale, side: Side, moreModels: number, round: number): Promise<Beside> {
  // The first reload has the prices of the new models stored, and is not measured.
  await reload(side, moreModels, `${round}-0`)
  let reloads = 0
  const outcome = await besideChat(scale, side, async (isOver) => {
    while (!isOver()) {
      reloads += 1
      await reload(side, moreModels, `${round}-${reloads}`)
      await Bun.sleep(BETWEEN_RELOADS_MS)
    }
  })
  console.log(`  ${reloads} reloads of ${moreModels + CALLED} models beside chat`)
  return outcome
}

/** Has the gateway read a file with so many more models, one of them new, and waits until it knows that one. */
async function reload(side: Side, moreModels: number, serial: string): Promise<void> {
  const isNew = `new-${moreModels}-${serial}`
  const others = Array.from({ length: moreModels - 1 }, (_, index) => `more-${index + 1}`)
  await side.writeSettings([...others, isNew])
  side.gateway.process.kill('SIGHUP')
  const limitAtMs = performance.now() + RELOAD_LIMIT_MS
  while (!(await knows(side, `svc/${isNew}`))) {
    if (performance.now() > limitAtMs) throw new Error(`the settings were not read again:\n${side.gateway.errors()}`)
    await Bun.sleep(POLL_MS)
  }
}

async function knows({ port }: Side, model: string): Promise<boolean> {
  const headers = { Authorization: `Bearer ${keyOfOrganization(1)}` }
  const answer = await fetch(`http://127.0.0.1:${port}/v1/models/${model}`, { headers })
  await answer.arrayBuffer()
  return answer.status === 200
}
