/** Clients that rent instances while the calls of a run go on, and write down what they were told of them. */

import type { TestKey } from '../customer.ts'
import type { Payer } from './plan.ts'
import { INSTANCES, type InstancePlan, planInstance } from './planInstance.ts'

const MINUTE_MS = 60_000
const POLL_MS = 200
/** No instance of a run takes so long to be made or deleted. */
const PATIENCE_MS = 90_000

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds))

export interface RentOptions {
  /** Of the gateway; ends in /v1. */
  readonly url: string
  readonly seed: number
  readonly keys: Readonly<Record<Payer, readonly TestKey[]>>
  /** Written with a line of JSON for each instance. */
  readonly path: string
}

/** Rents all of a run at once, each for as long as its plan says. Rejects where one does not go as planned. */
export async function rentInstances({ url, seed, keys, path }: RentOptions): Promise<void> {
  const lines = Array.from({ length: INSTANCES }, async (_, number) => {
    const plan = planInstance(seed, number)
    const own = keys[plan.payer]
    const key = own[number % own.length]
    if (key === undefined) throw new Error(`${plan.payer} has no key`)
    return JSON.stringify(await rentOne(url, key, plan))
  })
  await Bun.write(path, (await Promise.all(lines)).map((line) => `${line}\n`).join(''))
}

type Json = Record<string, unknown>

async function rentOne(url: string, { key, id: keyId, organizationId }: TestKey, plan: InstancePlan): Promise<Json> {
  const ask = (method: string, path: string, body?: object) => send(`${url}${path}`, method, key, body)
  const gpuType = `g${plan.gpuType}`
  const { gpu_types: types } = await ask('GET', '/instances/offerings')
  const offered = (types as { name: string; price_per_hour_microcents: number }[]).find(({ name }) => name === gpuType)
  const { resource_id: id } = await ask('POST', '/instances', {
    ...{ app: plan.app, gpu_type: gpuType, gpu_count: plan.gpuCount },
    expected_price_per_hour_cents: Math.round(((offered?.price_per_hour_microcents ?? 0) * plan.gpuCount) / 1_000_000),
  })
  const path = `/instances/${id}`
  await pause(plan.lifeMs)
  if (plan.app === 'refused') await until(ask, path, ({ state }) => state === 'failed')
  else await ask('DELETE', path)
  const over = await until(ask, path, ({ state }) => state === 'terminated' || state === 'failed')
  // The instant of a charge is that of its minute, which may begin before the instance.
  const start = new Date(Date.parse(String(over['created_at'])) - MINUTE_MS).toISOString()
  const { data } = await ask('GET', `/usage?group_by=instance_id&bucket=day&limit=100&start=${start}`)
  const rows = (data as { instance_id: string | null; gpu_seconds: number }[]).filter((row) => row.instance_id === id)
  return { ...over, keyId, organizationId, gpuSeconds: rows.reduce((sum, row) => sum + row.gpu_seconds, 0) }
}

async function until(
  ask: (method: string, path: string) => Promise<Json>,
  path: string,
  isSo: (instance: Json) => boolean,
): Promise<Json> {
  const untilMs = Date.now() + PATIENCE_MS
  for (;;) {
    const instance = await ask('GET', path)
    if (isSo(instance)) return instance
    if (Date.now() > untilMs) throw new Error(`an instance stays as it is: ${JSON.stringify(instance)}`)
    await pause(POLL_MS)
  }
}

async function send(url: string, method: string, key: string, body?: object): Promise<Json> {
  const headers = {
    Authorization: `Bearer ${key}`,
    ...(method === 'GET' ? {} : { 'Content-Type': 'application/json', 'Idempotency-Key': crypto.randomUUID() }),
  }
  const response = await fetch(url, { method, headers, ...(body && { body: JSON.stringify(body) }) })
  if (!response.ok) throw new Error(`${method} ${url}: ${response.status} ${await response.text()}`)
  return (await response.json()) as Json
}
