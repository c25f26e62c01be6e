/** The property tests that need no service, seed after seed. */

import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { findTests, readClosures } from './runner/closure.ts'
import { runCommand, testCommand } from './runner/command.ts'
import { FIRST_SEED_VARIABLE } from './runner/failures.ts'
import { chooseQuick } from './runner/quick.ts'
import { freshSeeds, longSeconds, withSeed } from './seeds.ts'

const CHECKOUT = join(import.meta.dirname, '../..')
const PROPERTIES = 'server/test/properties.ts'
/** Beyond the time for seeds: the last of them. */
const SLACK_MS = 180_000

async function runOnce(files: readonly string[], seed: number): Promise<void> {
  const { code, said } = await runCommand(testCommand(files), { [FIRST_SEED_VARIABLE]: `${seed}` })
  if (code !== 0) throw new Error(said)
}

test(
  'the property tests, seed after seed',
  async () => {
    const { first, goesOn } = freshSeeds({ aDay: 1_000 })
    const closures = readClosures(CHECKOUT)
    const all = chooseQuick(await findTests(CHECKOUT, { long: false }), closures)
    const files = all.filter((file) => closures.of(file).has(PROPERTIES))
    expect(files.length).toBeGreaterThan(10)
    let seeds = 0
    for (; goesOn(); seeds += 1) await withSeed(first + seeds, () => runOnce(files, first + seeds))
    console.log(`seeds: ${seeds} of the property tests, from ${first}`)
  },
  longSeconds() * 1_000 + SLACK_MS,
)
