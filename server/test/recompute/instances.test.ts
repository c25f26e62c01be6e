/** Lives of instances by a turned clock, recomputed by the independent program from what the interface tells of them. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Instance, isLive } from '../../src/instances/job/instance.ts'
import { instanceToWire } from '../../src/instances/job/wire.ts'
import { HOUR_MS, SECOND_MS } from '../../src/lib/time.ts'
import { TurnedClock } from '../clock.ts'
import { type InstanceHouse, openInstanceHouse } from '../instanceHouse.ts'
import { GPU_HOUR_MICROCENTS, PRINCIPAL } from '../instanceProcess.ts'
import { run } from '../python.ts'
import { exportCharges, readBalances } from './exportBooks.ts'
import type { Recomputed } from './recompute.ts'

const CENT = 1_000_000n

/** Not on a minute, nor on a second, and before midnight. */
const clock = new TurnedClock(Date.UTC(2031, 4, 17, 22, 40, 17, 417))
let house: InstanceHouse
let folder: string
beforeAll(async () => {
  house = await openInstanceHouse(clock, { liveMost: 100 })
  folder = await mkdtemp(join(tmpdir(), 'tollgate-recompute-'))
})
afterAll(async () => {
  await house.drop()
  await rm(folder, { recursive: true })
})

async function live(seconds: number): Promise<void> {
  for (let left = seconds; left > 0; left -= 20) {
    await clock.turn(Math.min(left, 20) * SECOND_MS)
    await house.work()
  }
}

const file = (name: string) => join(folder, name)

/** Writes what the interface and the database say, and returns what the program says of that. */
async function recompute(instances: readonly Instance[], granted: ReadonlyMap<string, bigint>): Promise<Recomputed> {
  const gpuTypes = [{ name: 'a100', price_per_hour_microcents: Number(GPU_HOUR_MICROCENTS) }]
  const settings = JSON.stringify({ models: [], instances: { gpu_types: gpuTypes } })
  for (const name of ['settings.json', 'settings-later.json']) await writeFile(file(name), settings)
  await writeFile(file('change.json'), 'null')
  for (const name of ['sent.jsonl', 'received.jsonl']) await writeFile(file(name), '')
  const lines = await Promise.all(
    instances.map(async (instance) => {
      const now = await house.find(instance)
      expect(isLive(now)).toBe(false)
      const [usage] = await house.database.query<{ seconds: bigint }>(
        'select coalesce(sum(gpu_seconds), 0)::bigint as seconds from instance_hours where instance_id = $1::uuid',
        [instance.id],
      )
      const { organizationId } = instance
      return { ...instanceToWire(now), keyId: PRINCIPAL, organizationId, gpuSeconds: Number(usage?.seconds) }
    }),
  )
  await writeFile(file('instances.jsonl'), lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
  await exportCharges(house.database, file('charges.jsonl'))
  const balances = await readBalances(house.database, [...granted.keys()])
  const accounts = balances.map((each) => ({
    ...each,
    granted: String(granted.get(each.organizationId)),
    dailyLimit: null,
  }))
  await writeFile(file('accounts.json'), JSON.stringify(accounts))
  return recomputed()
}

async function recomputed(): Promise<Recomputed> {
  const { stdout, stderr } = await run(['python3', '-B', join(import.meta.dirname, 'recompute.py'), folder])
  await rm(file('recompute.sqlite'), { force: true })
  if (stdout === '') throw new Error(stderr)
  return JSON.parse(stdout) as Recomputed
}

test('each minute of an instance is right to the micro-cent, and what is wrong is found', async () => {
  const granted = new Map<string, bigint>()
  const organization = async (microcents: bigint) => {
    const id = await house.organization(microcents)
    granted.set(id, microcents)
    return id
  }
  const rich = await organization(10_000n * CENT)
  const poor = await organization(57n * CENT)
  const long = await house.create(rich, { gpuCount: 3 })
  const short = await house.create(rich)
  const spent = await house.create(poor)
  await house.work()
  house.driver.next = 'creating'
  const neverRan = await house.create(rich)
  const timedOut = await house.create(rich)
  await house.work()
  house.driver.next = 'running'
  await live(47)
  await clock.turn(600)
  await house.delete(short)
  await live(300)
  await house.delete(neverRan)
  // Money for 27 minutes; past midnight; and the time in which one that does not run has failed.
  await live((2 * HOUR_MS) / SECOND_MS)
  await clock.turn(583)
  await house.delete(long)
  await live(60)
  const all = [long, short, spent, neverRan, timedOut]
  const states = await Promise.all(all.map(async (each) => (await house.find(each)).reason))
  expect(states).toEqual(['deleted', 'deleted', 'insufficient_balance', 'deleted', 'create_timeout'])

  const result = await recompute(all, granted)
  expect(result.problems).toEqual([])
  expect(result).toMatchObject({ charges: result.instance_minutes, instances: 5 })
  // Two hours and a part, 27 minutes of money, some minutes of two, and none of the last.
  expect(result.instance_minutes).toBeGreaterThan(150)

  const charges = await readFile(file('charges.jsonl'), 'utf8')
  const [first = '', ...others] = charges.trim().split('\n')
  const plant = async (lines: readonly string[]) => {
    await writeFile(file('charges.jsonl'), `${lines.join('\n')}\n`)
    return (await recomputed()).problems.join('\n')
  }
  expect(await plant([first, first, ...others])).toContain('is for a minute that was charged before')
  expect(await plant(others)).toContain('was not charged for the minute')
  const dearer = first.replace(/"costMicrocents" : "(\d+)"/, (_, cost) => `"costMicrocents" : "${BigInt(cost) + 1n}"`)
  expect(await plant([dearer, ...others])).toContain('and should cost')
})
