import type { Engine } from './engine.ts'
import { History, type Result } from './history.ts'
import { ModelEngine } from './model/modelEngine.ts'

export interface Many {
  readonly count: number
  readonly steps: number
  /** A line for each seed that failed, with how to run it again. */
  readonly failures: readonly string[]
  /** The organization that came nearest to its bound, with the formula's figures. */
  readonly tightest: string
}

/** Runs seeds from `from` on, `every` apart, as long as `goesOn` says so of how many have run and how many failed. */
export async function runMany(
  from: number,
  goesOn: (count: number, failed: number) => boolean,
  every = 1,
  engineOf: () => Engine | Promise<Engine> = () => new ModelEngine(),
): Promise<Many> {
  const failures: string[] = []
  let [count, steps] = [0, 0]
  let tightest = { share: -1, words: 'nothing was overspent' }
  for (let seed = from; goesOn(count, failures.length); seed += every) {
    const result = await new History(seed, await engineOf(), false).run()
    count += 1
    steps += result.steps
    if (result.problems.length > 0) failures.push(explain(result))
    for (const { share, words } of result.bound)
      if (share > tightest.share) tightest = { share, words: `seed ${seed}: ${words}` }
  }
  return { count, steps, failures, tightest: tightest.words }
}

function explain({ seed, problems }: Result): string {
  return `seed ${seed} fails: ${problems.join('; ')} (again: bun server/test/simulator/run.ts --seed ${seed})`
}
