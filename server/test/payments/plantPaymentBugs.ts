/** Puts bugs into a copy of the source, one at a time, and holds histories against it. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { spawn } from 'node:child_process'
import { copyToPlantIn, type PlantedCopy } from '../plantedCopy.ts'
import type { PlantedPaymentBug } from './plantedPaymentBugs.ts'

/** Histories until a bug must have shown. */
const SEEDS_MOST = 1_000
/** Histories that a copy without a bug must pass, to show that the copy is not what is found. */
const SEEDS_WITHOUT = 20
/** A busy machine runs two histories a second. */
const LIMIT_MS = 400_000

const PAYMENT_HISTORIES = 'server/test/payments/run.ts'

/** Makes a test of each bug: a history must fail with it. `program` runs the histories. */
export function testPlantedBugs(bugs: readonly PlantedPaymentBug[], program = PAYMENT_HISTORIES): void {
  let copy: PlantedCopy
  beforeAll(async () => {
    copy = await copyToPlantIn()
  })
  afterAll(() => copy.close())

  const run = (seeds: number) => runUntilFailure(program, copy, seeds)

  test(
    'the copy itself passes',
    async () => {
      const { failed, said } = await run(SEEDS_WITHOUT)
      expect({ failed, said }).toEqual({ failed: false, said: expect.stringMatching(/ 0 failed/) })
    },
    LIMIT_MS,
  )

  test.each(bugs.map((bug) => [bug.name, bug] as const))(
    'found: %s',
    async (name, bug) => {
      const takeBack = await copy.plant(name, 'server/src/payments', bug.exchanges)
      try {
        const { failed, said } = await run(SEEDS_MOST)
        expect({ failed, said: failed ? '' : said }).toEqual({ failed: true, said: '' })
        console.log(`${name}: ${/seed \d+ fails: .{0,120}/.exec(said)?.[0]}`)
      } finally {
        await takeBack()
      }
    },
    LIMIT_MS,
  )
}

/** Runs histories in the copy until one fails. */
async function runUntilFailure(
  program: string,
  { folder, environment }: PlantedCopy,
  seeds: number,
): Promise<{ readonly failed: boolean; readonly said: string }> {
  const args = [program, '--seeds', `${seeds}`, '--until-failure', '1']
  const child = spawn(process.execPath, args, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'], env: environment })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data: Buffer) => (said += data.toString()))
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
  return { failed: code === 1 && /seed \d+ fails/.test(said), said }
}
