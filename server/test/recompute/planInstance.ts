/** The properties of each instance of a run, by seed and number alone. */

import { type Seeded, seeded } from '../faults/seeded.ts'
import type { Payer } from './plan.ts'

export interface InstancePlan {
  readonly payer: Payer
  /** `slow`: it never runs, and its customer deletes it. `refused`: its driver makes no machine. */
  readonly app: 'server' | 'slow' | 'refused'
  readonly gpuType: number
  readonly gpuCount: number
  /** From its creation to its deletion. */
  readonly lifeMs: number
}

const GPU_TYPES = 4
const GPUS_MOST = 4

/** Of an organization no more than it may have at once, nor more that end within ten seconds than it may have in an hour. */
export const INSTANCES = 16

/** So long that most see a minute's end, and a few two. */
const LIFE_MOST_MS = 75_000
/** Short ones cost a few seconds, or none. */
const SHORT_MOST_MS = 3_000

/** Returns the plan of one of {@link INSTANCES}. The first three are one of each app. */
export function planInstance(seed: number, number: number): InstancePlan {
  const random = seeded(Math.imul(seed, 15_485_863) + number)
  return {
    payer: random.pick(['first', 'second', 'third']),
    app: appOf(random, number),
    gpuType: random.between(0, GPU_TYPES - 1),
    gpuCount: random.between(1, GPUS_MOST),
    lifeMs: random.between(1, random.percent(25) ? SHORT_MOST_MS : LIFE_MOST_MS),
  }
}

function appOf(random: Seeded, number: number): InstancePlan['app'] {
  const chance = random.between(1, 100)
  if (number === 0 || (number > 2 && chance <= 70)) return 'server'
  return number === 1 || (number > 2 && chance <= 88) ? 'slow' : 'refused'
}

/** The section `instances` of the settings. Its prices are odd, so that each rounding shows. */
export function instanceSettings(random: Seeded, commandPath: string): object {
  const app = (name: InstancePlan['app']) => ({ name, image: 'image:1', port: 8_080 })
  return {
    driver: { kind: 'command', path: commandPath },
    gpu_types: Array.from({ length: GPU_TYPES }, (_, type) => ({
      ...{ name: `g${type}`, vram_gb: 80, count: GPUS_MOST, disk_gb_max: 100 },
      // Of the first so little that some seconds cost nothing.
      price_per_hour_microcents: type === 0 ? random.between(1, 3_000) : random.between(1, 900_000_000),
    })),
    apps: [app('server'), app('slow'), app('refused')],
  }
}
