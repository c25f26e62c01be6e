/** Puts a bug of the table into a copy of the source, and looks whether the simulator finds it there. */

import { expect } from 'bun:test'
import { spawn } from 'node:child_process'
import { copyToPlantIn } from '../plantedCopy.ts'
import { TROUBLES, type TroubleName } from './plan.ts'
import type { PlantedBug } from './plantedBug.ts'

/** Histories until a bug must have shown. */
const SEEDS_MOST = { model: 800, postgres: 100 } as const
/** Histories that a copy without a bug must pass, to show that the copy is not what is found. */
const SEEDS_WITHOUT = { model: 60, postgres: 3 } as const

type Kind = keyof typeof SEEDS_MOST

export interface Planter {
  /** Fails unless histories in a copy without a bug pass. */
  expectSound(kind: Kind): Promise<void>
  /** Plants the bug, fails unless a history finds it, and takes it out again. */
  expectFound(bug: PlantedBug): Promise<void>
  close(): Promise<void>
}

/** Copies the source. Call `close` in `afterAll`. */
export async function openPlanter(): Promise<Planter> {
  const { folder, environment, plant, close } = await copyToPlantIn()

  /** Runs histories in the copy until one fails: what was said, and whether one did. */
  async function simulate(kind: Kind, seeds: number, trouble?: TroubleName) {
    const which = trouble === undefined ? [1, 1] : [TROUBLES.indexOf(trouble), TROUBLES.length]
    const [from, every] = which.map(String)
    const args = ['server/test/simulator/run.ts', '--seeds', `${seeds}`, '--until-failure', '1']
    args.push('--from', from ?? '1', '--every', every ?? '1')
    const child = spawn(process.execPath, kind === 'postgres' ? [...args, '--postgres', '1'] : args, {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: environment,
    })
    let said = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (data: Buffer) => (said += data.toString()))
    const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
    return { failed: code === 1 && /seed \d+ fails/.test(said), said }
  }

  return {
    async expectSound(kind) {
      const { failed, said } = await simulate(kind, SEEDS_WITHOUT[kind])
      expect({ failed, said }).toEqual({ failed: false, said: expect.stringMatching(/ 0 failed;/) })
    },
    async expectFound(bug) {
      const { name, shownBy, trouble } = bug
      const startedMs = performance.now()
      const takeBack = await plant(name, 'server/src', [bug, ...(bug.also ?? [])])
      try {
        const { failed, said } = await simulate(shownBy, SEEDS_MOST[shownBy], trouble)
        expect({ failed, said: failed ? '' : said }).toEqual({ failed: true, said: '' })
        const [, seed] = /seed (\d+) fails: .*/.exec(said) ?? []
        console.log(`${name}: seed ${seed}, ${((performance.now() - startedMs) / 1000).toFixed(1)} s`)
      } finally {
        await takeBack()
      }
    },
    close,
  }
}
