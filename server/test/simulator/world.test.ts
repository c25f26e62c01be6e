import { expect, test } from 'bun:test'
import { Allowances } from './bound.ts'
import type { Engine } from './engine.ts'
import { Fleet } from './fleet.ts'
import { ModelEngine } from './model/modelEngine.ts'
import { Outage } from './outage.ts'
import { planOf, randomBytesOf } from './plan.ts'
import { World } from './world.ts'

const SEEDS = 40

test('a statement is carried out once at most, also where its process dies in the step that chose it', async () => {
  const carriedOut = new Set<number>()
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    // On a real server one step picks several things that may happen, and then does one after the other.
    const engine: Engine = Object.assign(new ModelEngine(), { isConcurrent: true })
    const plan = planOf(seed)
    const world = new World(seed, engine, plan.startMs)
    const fleet = new Fleet(world, new Outage(world), plan, randomBytesOf(seed), new Allowances(0n, plan))
    const machine = world.machine('process 1', 0)
    let times = 0
    void world.ask(machine, 'renewal', async () => {
      times += 1
    })
    // As likely as the statement.
    world.sources.push(() => [{ weight: 4, happen: () => fleet.kill(machine, 'kill -9') }])
    await world.step()
    carriedOut.add(times)
  }
  expect([...carriedOut].sort()).toEqual([0, 1])
})
