/** Random load on a real server, recomputed by an independent program: as many runs as fit into the time given. */

import { expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freshSeeds, longSeconds } from '../seeds.ts'
import { plantFaults } from './plantedFaults.ts'
import { runOnce } from './recompute.ts'

const CALLS = 20_000
/** Beyond the time for runs: the last of them, which may wait a minute for its edge, and the planted faults. */
const SLACK_MS = 240_000
test(
  'every charge of random load is right to the micro-cent, and what is wrong is found',
  async () => {
    let folder = ''
    const { first: firstSeed, goesOn } = freshSeeds({ aDay: 1_000 })
    let runs = 0
    let charges = 0
    do {
      if (folder !== '') await rm(folder, { recursive: true })
      folder = await mkdtemp(join(tmpdir(), 'tollgate-recompute-'))
      const seed = firstSeed + runs
      const processes = 1 + (runs % 2)
      const result = await runOnce({ seed, calls: CALLS, processes, atOnce: 64, folder })
      const again = `bun server/test/recompute/run.ts --calls ${CALLS} --processes ${processes} --seed ${seed}`
      expect({ problems: result.recomputed.problems, agrees: result.agrees, again }).toEqual({
        problems: [],
        agrees: true,
        again,
      })
      expect(result.recomputed.calls).toBe(CALLS)
      // The run was what it is meant to be.
      const { outcomes, estimated, cached, peak_and_off_peak, early, embeddings, images, partial } = result.recomputed
      for (const outcome of ['completed', 'cancelled', 'interrupted']) expect(outcomes[outcome]).toBeGreaterThan(50)
      // Of a hundred jobs, what is not cancelled, left or failed.
      expect(result.recomputed.videos).toBeGreaterThan(20)
      expect(result.recomputed.instance_minutes).toBeGreaterThan(10)
      expect(result.recomputed.frozen).toBeGreaterThan(0)
      for (const count of [estimated, cached, embeddings, images, partial]) expect(count).toBeGreaterThan(300)
      expect(peak_and_off_peak).toBeGreaterThan(0)
      expect(early).toBeGreaterThan(0)
      runs += 1
      charges += result.recomputed.charges
    } while (goesOn())
    console.log(`seeds: ${runs} of the recomputation, from ${firstSeed}; ${charges} charges right to the micro-cent`)
    const missed = await plantFaults(folder)
    await rm(folder, { recursive: true })
    expect(missed).toEqual([])
  },
  longSeconds() * 1_000 + SLACK_MS,
)
