import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from '../../../../test/acceptance/ask.ts'
import { SETTINGS } from '../../../../test/acceptance/catalog.ts'
import { TurnedClock } from '../../../../test/clock.ts'
import type { TestKey } from '../../../../test/customer.ts'
import { postChargeOf } from '../../../../test/postedCharges.ts'
import { DAY_MS } from '../../../lib/time.ts'

const NOON_MS = Date.UTC(2031, 4, 15, 12)
const MAY = 'start=2031-05-01T00:00:00Z&end=2031-06-01T00:00:00Z'

let gateway: AskedGateway
beforeAll(async () => {
  gateway = await openAskedGateway({ clock: new TurnedClock(NOON_MS), settings: SETTINGS })
})
afterAll(() => gateway.close())

async function listed(query: string, key: TestKey): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const { json } = await gateway.ask({ path: `/manage/v1/charges?${MAY}&${query}`, key })
  return (json as { data: Record<string, unknown>[] }).data
}

test('the list of a model is the same by its id and by each of its aliases, and of one tier with the suffix', async () => {
  const caller = await gateway.customer({ cents: 1 })
  const post = (model: string, tier: 'serverless' | 'economy', atMs: number) =>
    postChargeOf(gateway.database, caller, { admittedAtMs: NOON_MS - atMs, model, tier })
  const { chargeId: bare } = await post('svc/demo', 'serverless', 1)
  const { chargeId: economy } = await post('svc/demo', 'economy', 2)
  // From before the model got its present id.
  const { chargeId: renamed } = await post('vendor/demo', 'serverless', 3)
  const { chargeId: gone } = await post('svc/gone', 'serverless', 4)
  await post('svc/dear', 'serverless', 5)
  const found = async (model: string) => (await listed(`model=${model}`, caller)).map(({ id }) => id)
  for (const name of ['svc/demo', 'demo', 'vendor/demo']) expect(await found(name)).toEqual([bare, economy, renamed])
  for (const name of ['svc/demo:economy', 'demo:economy']) expect(await found(name)).toEqual([economy])
  expect(await found('svc/gone')).toEqual([gone])
  expect(await found('svc/dear:economy')).toEqual([])
  expect(await found('nothing')).toEqual([])
})

test('a call by an alias is listed with the id, as it is exported', async () => {
  const caller = await gateway.customer({ cents: 100 })
  const body = { model: 'demo:economy', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 4 }
  expect((await gateway.ask({ path: '/chat/completions', key: caller, body })).status).toBe(200)
  const [charge] = await listed('model=demo', caller)
  expect(charge).toMatchObject({ model: 'svc/demo', tier: 'economy' })
  const { text } = await gateway.ask({ path: `/manage/v1/charges/export?${MAY}`, key: caller })
  const exported = text.split('\n').find((line) => line.includes('"type":"charge"')) ?? '{}'
  expect(JSON.parse(exported)).toMatchObject({ id: charge?.['id'], model: 'svc/demo', tier: 'economy' })
})

test('a charge of an instance says of which, with how many GPUs and for how long, in lists and in both forms of an export', async () => {
  const caller = await gateway.customer({ cents: 100 })
  const instanceId = '01a1fbbf-5f8c-7eaa-865f-c64bfac3db22'
  await postChargeOf(gateway.database, caller, {
    admittedAtMs: NOON_MS - DAY_MS,
    model: 'instance/a100',
    modality: 'instance',
    usage: { promptTokens: 0, cachedPromptTokens: 0, completionTokens: 0 },
    instance: { instanceId, gpuType: 'a100', gpuCount: 2, fromSecond: 60, seconds: 37 },
  })
  await postChargeOf(gateway.database, caller, { admittedAtMs: NOON_MS - DAY_MS - 1 })
  const rented = { instance_id: instanceId, gpu_count: 2, instance_seconds: 37 }
  const [charge, call] = await listed('', caller)
  expect(charge).toMatchObject({ model: 'instance/a100', modality: 'instance', ...rented })
  expect(Object.keys(call ?? {})).not.toContain('instance_id')
  const path = `/manage/v1/charges/export?${MAY}`
  const { text } = await gateway.ask({ path, key: caller })
  const rows = text.split('\n').filter((line) => line.includes('"type":"charge"'))
  expect(rows.map((row) => JSON.parse(row).instance_seconds)).toEqual([undefined, 37])
  const { text: csv } = await gateway.ask({ path: `${path}&format=csv`, key: caller })
  const lines = csv.split('\r\n').map((line) => line.split(','))
  const at = lines[0]?.indexOf('instance_id') ?? -1
  expect(lines[0]?.slice(at, at + 3)).toEqual(['instance_id', 'gpu_count', 'instance_seconds'])
  const values = lines.filter(([type]) => type === 'charge').map((line) => line.slice(at, at + 3))
  expect(values).toEqual([
    ['', '', ''],
    [instanceId, '2', '37'],
  ])
})
