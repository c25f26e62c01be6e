/**
 * The time that a call waits for the Redis that processes share, while it answers, is killed, or stands still.
 * README.md explains it.
 */

import { tmpdir } from 'node:os'
import { systemClock } from '../src/infra/clock.ts'
import { makeCustomer, type TestKey } from '../test/customer.ts'
import {
  type Asked,
  type LimitedFleet,
  lasting,
  startLimitedFleet,
  statuses,
  troubled,
} from '../test/faults/keyLoad.ts'
import { startTestPostgres, TEST_POSTGRES_VARIABLE } from '../test/postgres.ts'
import type { TestRedis } from '../test/redis.ts'
import { describeConditions, describeMachine } from './machine.ts'
import { atLeastOne, readOptions } from './options.ts'
import { median, type Percentiles, Samples } from './statistics.ts'

const USAGE = `usage: bun server/bench/limits.ts [--processes 4] [--rounds 3] [--seconds 4] [--rate 200] [--keys 8]
  --seconds  of each measurement      --rate  calls a second, over all processes and keys`

const { text } = readOptions(USAGE, { processes: '4', rounds: '3', seconds: '4', rate: '200', keys: '8' }, [])
const processCount = atLeastOne('processes', text['processes'])
const rounds = atLeastOne('rounds', text['rounds'])
const seconds = atLeastOne('seconds', text['seconds'])
const rate = atLeastOne('rate', text['rate'])
const keyCount = atLeastOne('keys', text['keys'])

/** The most that the p99 of a measurement may be above that of the undisturbed one before it. */
const ADDED_P99_MS = 5
/** Into a measurement; what is left of it is without Redis. */
const FAULT_AFTER_MS = 500
/** The gateways look for a lost store four times a second. */
const RECOVERY_MS = 1_500

interface Fault {
  readonly name: string
  bring(redis: TestRedis): unknown
  repair(redis: TestRedis): unknown
}

/** The first is none: what two measurements differ by anyway. */
const FAULTS: readonly Fault[] = [
  { name: 'nothing', bring: () => {}, repair: () => {} },
  { name: 'killed', bring: (redis) => redis.kill(), repair: (redis) => redis.start() },
  { name: 'standing still', bring: (redis) => redis.signal('SIGSTOP'), repair: (redis) => redis.signal('SIGCONT') },
]

const postgres = await startTestPostgres()
process.env[TEST_POSTGRES_VARIABLE] = postgres.url
let isGood = false
try {
  const fleet = await startLimitedFleet(processCount)
  try {
    isGood = await measure(fleet)
  } finally {
    await fleet.close()
  }
} finally {
  await postgres.stop()
}
process.exit(isGood ? 0 : 1)

async function measure(fleet: LimitedFleet): Promise<boolean> {
  console.log(describeMachine())
  console.log(describeConditions(tmpdir()))
  const keys: TestKey[] = []
  for (let number = 0; number < keyCount; number += 1) keys.push(await makeCustomer(fleet.fresh.database))
  await fleet.load(keys, rate, lasting(2_000))
  const added = new Map(FAULTS.map(({ name }) => [name, [] as number[]]))
  let refused = 0
  for (let round = 1; round <= rounds; round += 1) {
    for (const fault of FAULTS) {
      const before = await fleet.load(keys, rate, lasting(seconds * 1_000))
      const during = await disturbed(fleet, keys, fault)
      const [usual, then] = [before, during].map(percentilesOf)
      if (usual === undefined || then === undefined) throw new Error('nothing was measured')
      added.get(fault.name)?.push(then.p99 - usual.p99)
      refused += before.length + during.length - (statuses([...before, ...during])['200'] ?? 0)
      console.log(`round ${round}, ${fault.name.padEnd(14)}  ${show(usual)}  then ${show(then)}`)
    }
  }
  for (const [name, each] of added) {
    const [least = 0, ...more] = [...each].sort((a, b) => a - b)
    console.log(`${name}: p99 ${ms(median(each))} more than undisturbed [${ms(least)} … ${ms(more.at(-1) ?? least)}]`)
  }
  console.log(`${refused} calls were refused`)
  return refused === 0 && [...added.values()].every((each) => median(each) < ADDED_P99_MS)
}

async function disturbed({ redis, load }: LimitedFleet, keys: readonly TestKey[], fault: Fault): Promise<Asked[]> {
  const asked = await load(
    keys,
    rate,
    troubled(seconds * 1_000, FAULT_AFTER_MS, () => fault.bring(redis)),
  )
  await fault.repair(redis)
  const backAtMs = systemClock.monotonicMs()
  while (systemClock.monotonicMs() < backAtMs + RECOVERY_MS) await Bun.sleep(50)
  return asked
}

function percentilesOf(asked: readonly Asked[]): Percentiles {
  const samples = new Samples()
  for (const { tookMs } of asked) samples.add(tookMs)
  return samples.percentiles()
}

function ms(milliseconds: number): string {
  return `${milliseconds.toFixed(2)} ms`
}

function show({ p50, p99, max }: Percentiles): string {
  return `p50 ${ms(p50)} p99 ${ms(p99)} longest ${ms(max)}`
}
